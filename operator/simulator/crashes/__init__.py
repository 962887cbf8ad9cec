"""The operator killed at every await of short histories: nothing but stored objects and the group survives."""
