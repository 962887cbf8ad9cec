"""Know every pod that can hold an instance id, and know since when nothing of it can have been missed.

`store` is what decisions ask; it joins three parts. The `watch` follows pods. The `book` folds every version of a pod, in
whatever order, into `records` (`contradictions`, `unwritten`, `gone`). And `epochs` say under which epoch nothing was
missed: over a gap (`names`), over a restart (`continuity`, `handover`), and beside a workload whose status cannot be
written (`behind`).
"""
