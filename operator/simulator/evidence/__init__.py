"""An exhaustive model of one ordinal: no order of events makes the operator remove a living member.

The world is abstract, the decisions are not: what a pod version proves, what a chain proves and what a round may do
is asked of the product's own code. What happens unseen is searched in `continuity`, by rules of its own.
`python -m simulator.evidence` visits every reachable state of every variant. The faults that it must find lie with the tests.
"""
