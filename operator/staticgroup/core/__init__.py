"""Ring 1: the decisions. Pure, total and synchronous: no clock, no I/O, no logging, no randomness.

Everything here is a function of frozen values. The heart lies flat: what was observed (`snapshot`, of `group` and `workload`)
is laid out as one table of `seats`, `guards` hold back, `plan` decides. The folders serve it: `members` which pods may hold a
member, `evidence` which pods have ended, `ids` who makes which id, `next_pods` what they receive, `findings` what is so in words, `status` the way to the
status and back, `journal` the facts for other programs.
"""
