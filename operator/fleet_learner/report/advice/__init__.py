"""Advice for each group and cluster that its owner can act on: rules, responsibility, and open questions."""
