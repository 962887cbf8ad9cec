"""From a fleet's restart history to the right session timeout of every group, on Spark."""
