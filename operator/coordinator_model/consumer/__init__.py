"""Consumer groups (KIP-848): the coordinator assigns and each member is reconciled; both protocols in one group."""
