"""Follow the pods of one scope without losing an event, or say that one may be lost.

A `stream` lists and watches; `seat_filter` chooses what is looked at, `position` says how far everything is folded, and
`replay` brings it up to a read at once. What it sees, and each gap, it tells a `sink`.
"""
