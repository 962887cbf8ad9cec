"""A team's own numbers, told twice: with the operator and without."""
