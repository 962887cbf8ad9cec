"""Know every pod that can hold an instance id, and know under which name of the watch nothing of it was missed.

`store` is what decisions ask. The `watch` follows pods, the `book` folds every version of a pod, in whatever order, into
`index`, and `position` is what a later process goes on from.
"""
