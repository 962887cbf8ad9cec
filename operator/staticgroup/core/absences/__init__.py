"""For how long members were away when their process ended: which of it is kept, and what it says of the next time.

`readings` says which members returned between two readings of the group, `measure` makes absences of returns and ends
of processes, `samples` keeps a bounded sample of them and estimates from it how long a member may be away.
"""
