"""What people call: each command runs once, as its caller, prints what it found, and never takes the Lease.

`explain`, `plan -f` and `doctor` only read.
"""
