"""Follow the pods of one scope without losing an event, or report that one may be lost.

A `stream` lists and watches; it passes versions of pods to the store, and the `messages` for a complete LIST and a gap.
"""
