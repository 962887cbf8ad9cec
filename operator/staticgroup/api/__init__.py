"""Ring 0: what users and other programs see, and what is generated from it."""
