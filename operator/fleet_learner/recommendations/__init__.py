"""From facts to what each group is recommended."""
