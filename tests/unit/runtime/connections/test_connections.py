"""Secrets that were rotated away or whose connection is gone stay masked; what a tenant may not decide, he does not."""

from __future__ import annotations

from typing import Any

from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.runtime.connections.connections import Connections
from staticgroup.runtime.stores import Stores

KEY = ("shop", "kafka")


class Secrets:
    """The one question of the gateway that connections ask."""

    def __init__(self) -> None:
        self.password = b"first-canary"

    async def read_secret(self, namespace: str, name: str) -> dict[str, bytes]:
        return {"username": b"operator", "password": self.password}


def connections(kube: Any, *, asks_for_loopback: bool = False, **options: Any) -> Connections:
    stores = Stores()
    spec = {
        "allowLoopback": asks_for_loopback,
        "bootstrapServers": ["kafka:9093"],
        "tls": {"enabled": True},
        "sasl": {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "s"}},
    }
    stores.put_connection(KEY, {"metadata": {"namespace": "shop", "name": "kafka", "uid": "c1"}, "spec": spec})
    return Connections(kube=kube, stores=stores, monotonic_s=lambda: 0.0, **options)


async def test_rotated_password_is_used_after_distrust_and_both_stay_masked_also_once_the_connection_is_gone() -> None:
    kube = Secrets()
    held = connections(kube)
    before = await held.settings(KEY)
    kube.password = b"second-canary"
    assert await held.settings(KEY) == before
    held.distrust(KEY)
    after = await held.settings(KEY)
    assert isinstance(after, ConnectionSettings)
    assert after.sasl is not None
    assert after.sasl.password.reveal() == "second-canary"
    assert set(held.secret_texts()) == {"first-canary", "second-canary"}
    held.forget(KEY)
    assert set(held.secret_texts()) == {"first-canary", "second-canary"}


async def test_connection_that_allows_itself_loopback_needs_the_operators_consent() -> None:
    for allowed in (False, True):
        settings = await connections(Secrets(), asks_for_loopback=True, allow_loopback=allowed).settings(KEY)
        assert isinstance(settings, ConnectionSettings)
        assert settings.allow_loopback is allowed
