"""The edge to Kubernetes: calls whose refusals are values, parsed objects, and watches that know what they missed."""
