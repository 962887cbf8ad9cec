"""A real consumer application with the Java client: what it does and prints when it crashes or is refused."""
