"""Brokers that demand TLS, a login and rights: the connection to them, and what they say they refused.

The one idea: the authorizer's own log is a witness of every request that a principal tried without the right to.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import Any

from support.devcluster.kafka_broker import Brokers
from support.scene.play import Play

CA_SECRET, LOGIN_SECRET = "kafka-ca", "kafka-login"
_DENIED = re.compile(r"(?P<at>\S+)Z .*?rincipal = User:(?P<user>\S+) is Denied.*?peration = (?P<operation>\w+)")


def secret(play: Play, name: str, **content: str) -> dict[str, Any]:
    """Return a Secret of the play's namespace; keys are written with `_` for `.`."""
    encoded = {key.replace("_", "."): base64.b64encode(text.encode()).decode() for key, text in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": play.name}, "data": encoded}


def login(play: Play, user: str, password: str | None = None) -> dict[str, Any]:
    """Return the Secret with which the operator logs in; None takes the password that the brokers know."""
    known = play.brokers.state.settings.users[user]
    return secret(play, LOGIN_SECRET, username=user, password=known if password is None else password)


def secure_connection(play: Play) -> dict[str, Any]:
    """Return the KafkaConnection over TLS and SCRAM."""
    return play.connection(
        bootstrapServers=play.brokers.sasl_bootstrap.split(","),
        tls={"enabled": True, "caSecretRef": {"name": CA_SECRET}},
        sasl={"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": LOGIN_SECRET}},
    )


def apply_secure_connection(play: Play, user: str) -> None:
    """Apply both Secrets and the connection."""
    authority = secret(play, CA_SECRET, ca_crt=play.brokers.ca_path.read_text())
    play.stage.apply(authority, login(play, user), secure_connection(play))


def denials(brokers: Brokers, user: str, since_ms: int, *operations: str) -> list[str]:
    """Return the authorizer's lines about refused requests of a user, of some operations or of all."""
    found = []
    for node in brokers.nodes:
        for line in brokers.state.log_path(node).read_text(errors="replace").splitlines():
            match = _DENIED.search(line)
            if match is None or match["user"] != user or (operations and match["operation"] not in operations):
                continue
            if datetime.fromisoformat(match["at"] + "+00:00").timestamp() * 1000 >= since_ms:
                found.append(line)
    return found
