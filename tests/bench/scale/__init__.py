"""The operator at scale: a real API server with thousands of StaticGroups, measured from outside."""
