"""Nodes: their facts, also of gone ones; which machine each was; and what one shows when it owes a proof.

`store` follows them, `ledger` remembers, `records` keeps that in ConfigMaps, `looks` looks at one.
"""
