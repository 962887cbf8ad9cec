"""Share groups (KIP-932) as far as membership goes: partitions are shared, nobody is static, nothing is revoked first."""
