"""Kafka's group coordinator as pure functions of requests and time, and what one needs to talk to it.

Not modelled: OffsetDelete and the expiry of offsets, stable fetch (`requireStable`, KIP-447), the clean-up of offsets
and subscriptions after a topic was deleted, and assignors that run in another thread (assignor offload, KIP-1263): an
assignment that is due is computed within the request.
"""
