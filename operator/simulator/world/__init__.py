"""Everything of one seed in one place: what users wrote, the cluster, the brokers, the operators, and the oracles that watch."""
