"""The controllers, each of which reads and writes the API server only, and a third-party one."""
