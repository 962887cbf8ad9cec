"""Streams groups (KIP-1071) as far as membership goes: tasks by role instead of partitions."""
