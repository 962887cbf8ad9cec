"""Know every pod that can hold an instance id, and know since when nothing of it can have been missed.

`stream` follows the pods of one scope, `book` folds every version of a pod into an incarnation, and `store` joins the
two into what decisions ask: the chain of an id, and the epoch under which that chain is complete. The other files each
hold one reason why the watch still counts as unbroken: over a gap (`names`, `look_back`), over a restart (`continuity`),
and beside a workload whose status cannot be written (`behind`).
"""
