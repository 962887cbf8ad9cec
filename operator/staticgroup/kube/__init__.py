"""The edge to Kubernetes: calls whose refusals are values, raw objects parsed once, and watches that know what they missed."""
