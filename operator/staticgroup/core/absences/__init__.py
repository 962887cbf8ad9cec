"""For how long members were away when their process ended: which of it is kept, and what it says of the next time.

`causes` says why a process ended, `following` makes measured absences of what rounds see, by the journal's own definition
(`api.journal.absences`), `reservoir` keeps a bounded sample of them, which is durable, and `need` says how long a member
may be away by them.
"""
