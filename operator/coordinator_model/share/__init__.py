"""Membership of share groups (KIP-932): partitions are shared, no member is static, nothing is revoked first."""
