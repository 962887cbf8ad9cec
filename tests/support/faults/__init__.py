"""Faults of the API server and of brokers against the real operator: what became of members, and how soon all was well again.

Why: an operator in production is asked what it does while its neighbours fail. One idea: each fault has a lane of its
own, a group of real consumers with an operator process that reaches the real API server and the real broker only
through proxies; the outcome is told by the broker's log and by the process table, which know nothing of the operator.
"""
