"""Ring 1: the decisions. Pure, total and synchronous: no clock, no I/O, no logging, no randomness.

Everything here is a function of frozen values: `seats` lays a `snapshot` out as one table, `guards` hold removals back,
`plan` decides. The folders serve it: `members` knows which pods may hold a member, `evidence` which pods have ended,
`ids` whose an id is, `absences` how long restarts take, `timeouts` what follows from that; `findings` words what the
status says, and `status` writes it and reads it back.

What means the same everywhere is described here only: `now_s` is the operator's clock, in seconds since the Unix epoch;
a `GroupView` was read completely; a `History` is of earlier rounds; `expected` are the ids that the workload calls for,
each with its ordinal.
"""
