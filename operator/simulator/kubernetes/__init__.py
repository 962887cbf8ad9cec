"""A whole Kubernetes cluster: API server, controllers, nodes, and what users do."""
