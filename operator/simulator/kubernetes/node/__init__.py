"""A node: its machine, its kubelet, and what a kubelet writes about pods and containers."""
