"""The nodes that owe a proof, watched over while this replica holds the Lease."""
