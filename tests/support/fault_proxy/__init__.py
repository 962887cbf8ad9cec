"""Proxies that misbehave on demand, before a real API server and before real brokers.

Why: whether the operator does harm when its neighbours fail shows only with the real ones, and those do not fail when a
test asks. One idea: everything passes untouched until a fault is switched on, at once or by a tripwire that the very
request it is meant for touches.
"""
