"""What happens to a group of a team's own size, with the operator and without."""
