"""A whole Kubernetes cluster: the API server as its clients see it, its controllers, its nodes, and what people ask of it."""
