"""For how long members were away when their process ended: which of it is kept, and what it says of the next time.

`runs` says when processes ended and started, `member_runs` whose they were, `readings` which members came back,
`causes` why a process ended. `following` makes measured absences of them by the definition in `api.absences`,
`reservoir` keeps a bounded sample, which is durable, and `need` says how long a member may be away by them.
"""
