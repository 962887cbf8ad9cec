"""An exhaustive model of one pod name: nothing that happens unseen makes the operator remove a living member.

The model beside this one shows what the operator may conclude while its watch is complete. This one searches what is left
when it was not: gaps, take-overs, restarts, lost and overwritten statuses, restores of etcd. Its rules stand in `rules.py`,
one function each; a mutant replaces one of them. Source: the continuity rules in docs/design.md and docs/adr/0010.
"""
