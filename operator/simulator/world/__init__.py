"""Everything of one seed: what users wrote, the cluster, the brokers, the operators, and the oracles."""
