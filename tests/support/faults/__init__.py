"""Faults of API server and brokers under the real operator: what became of members, and how soon it recovered.

Why: an operator in production is asked what it does while its neighbours fail. One idea: each fault has a lane of its
own, a group of real consumers with an operator process that reaches the real API server and the real broker only
through proxies; the broker's log and the process table, which are independent of the operator, show the outcome.
"""
