"""From raw records to facts: bronze and silver."""
