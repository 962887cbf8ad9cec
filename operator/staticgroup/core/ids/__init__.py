"""Which ids a StaticGroup makes: from a pod to its ids and back, what clients append, and who else makes the same."""
