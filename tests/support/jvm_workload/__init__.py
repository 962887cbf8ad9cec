"""A real consumer application with the Java client: what a user's pod on a JVM does, and says, when it crashes and is refused."""
