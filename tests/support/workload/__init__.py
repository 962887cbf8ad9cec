"""A real consumer application and a steady load for it: what end-to-end tests and the demonstration run in pods.

The one idea: both print one JSON line for each thing that happened, and ranges of offsets instead of single records, so
that `ranges.missing` can prove from two logs that nothing was lost.
"""
