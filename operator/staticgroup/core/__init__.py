"""Ring 1: the decisions. Pure, total and synchronous: no clock, no I/O, no logging, no randomness.

Everything here is a function of frozen values: a `snapshot` is laid out as one table of `seats`, `guards` hold back, `plan`
decides. The folders serve it: `members` which pods may hold a member, `evidence` which pods have ended, `ids` which id
belongs to whom, `absences` how long restarts take, `timeouts` what follows from it, `findings` what the status says in
words, `status` the way to the status and back.
"""
