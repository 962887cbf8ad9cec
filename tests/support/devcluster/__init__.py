"""A real Kubernetes and a real Kafka on one bare Linux box, without a container engine.

Everything is built from source modules and distribution packages through their ordinary clients, cached, and run as
plain processes. The one idea: each node is a network namespace plus one cgroup, so that taking a cluster away is
killing the pids of its cgroups and deleting its namespaces.
"""
