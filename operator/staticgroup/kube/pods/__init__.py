"""Know every pod that can hold an instance id, and know under which name of the watch nothing of it was missed.

Decisions ask the `store`. The `watch` follows pods; the `book` folds every version of a pod, in any order, and finds
what is known of one; a later process resumes from the `position`.
"""
