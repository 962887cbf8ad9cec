"""What people call: each command runs once, as its caller, prints what it found, and never takes the Lease.

`explain`, `plan -f` and `doctor` only read; `confirm`, `confirm-gap` and `restored` write down a person's word, with
that person's own rights. No command removes a member.
"""
