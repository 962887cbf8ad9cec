"""Follow the pods of one scope without losing an event, or report that one may be lost.

`stream` lists and watches; it passes what it reads, and each gap, to the `sink`.
"""
