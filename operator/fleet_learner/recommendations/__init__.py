"""From facts to a recommendation for each group."""
