"""Classic groups: members join in rounds and the leader assigns; and what KIP-345 left for later."""
