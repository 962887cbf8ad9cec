"""Nodes: their facts, also of gone ones."""
