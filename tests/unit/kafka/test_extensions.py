"""SASL extensions on the wire, held against another client that sends them: librdkafka's."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace

import confluent_kafka
import pytest

from staticgroup.api.resources.kafkaconnection import KafkaConnectionSpec
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText, resolve
from support.narrowing import of_type
from unit.kafka.fake_broker import FakeBroker

from .gateway_script import GivenToken

EXTENSIONS = {"logicalCluster": "lkc-1abc2d", "identityPoolId": "pool-x1 +/=,%~"}


async def our_first_message(broker: FakeBroker, settings: ConnectionSettings, extensions: dict[str, str]) -> bytes:
    """Log in at a fake broker and return the bytes of the SASL client."""
    oauth = OAuthSettings(token_endpoint="https://idp", extensions=tuple(extensions.items()))
    settings = replace(settings, sasl=SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, oauth=oauth))
    gateway = KioGateway(make_tokens=lambda _settings: GivenToken("t-1"))
    assert isinstance(await gateway.probe(settings), ClusterFacts)
    await gateway.close()
    return broker.sasl_bytes[-1][broker.sasl_bytes[-1].index(b"n,,") :]


async def first_message_of_librdkafka(extensions: dict[str, str]) -> bytes:
    """Let librdkafka log in at a listener that hears what it says."""
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(frame: bytes) -> bytes:
        key, version = struct.unpack_from(">hh", frame)
        if key == 18 and version > 0:  # KIP-511: answered in version 0, so that it asks again in that
            return struct.pack(">hi", 35, 0)
        if key == 18:
            served = ((3, 0, 4), (17, 0, 1), (18, 0, 0), (36, 0, 1))
            return struct.pack(">hi", 0, len(served)) + b"".join(struct.pack(">hhh", *each) for each in served)
        if key == 17:
            return struct.pack(">hih", 0, 1, 11) + b"OAUTHBEARER"
        if not heard.done():
            heard.set_result(frame[frame.index(b"n,,") :])
        return struct.pack(">hhi", 0, -1, 0) + (struct.pack(">q", 0) if version else b"")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                body = frame[4:8] + answer(frame)  # the correlation id goes first
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{server.sockets[0].getsockname()[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _config: ("t-1", 4_000_000_000.0, "principal", extensions),
            "log_level": 0,
        }
    )
    try:
        async with asyncio.timeout(20):
            while not heard.done():
                await asyncio.to_thread(producer.poll, 0.05)
            return heard.result()
    finally:
        server.close()


@pytest.mark.parametrize("extensions", [{}, {"logicalCluster": "lkc-1abc2d"}, EXTENSIONS], ids=["none", "one", "two"])
async def test_first_message_is_that_of_another_client(
    broker: FakeBroker, settings: ConnectionSettings, extensions: dict[str, str]
) -> None:
    ours, theirs = await our_first_message(broker, settings, extensions), await first_message_of_librdkafka(extensions)
    assert ours.count(b"\x01") == 3 + len(extensions)
    assert ours == theirs


def test_extensions_of_the_spec_are_part_of_the_settings() -> None:
    listed = [{"name": name, "value": value} for name, value in EXTENSIONS.items()]
    oauth = {"tokenEndpoint": "https://idp", "clientSecretRef": {"name": "s"}, "extensions": listed}
    sasl = {"mechanism": "OAUTHBEARER", "oauth": oauth}
    spec = KafkaConnectionSpec.model_validate({"bootstrapServers": ["k:1"], "tls": {"enabled": True}, "sasl": sasl})
    settings = of_type(ConnectionSettings, resolve(spec, {"s": {"clientId": b"c", "clientSecret": b"s"}}))
    assert settings.sasl
    expected = OAuthSettings(
        token_endpoint="https://idp", client_id="c", client_secret=SecretText("s"), extensions=tuple(EXTENSIONS.items())
    )
    assert settings.sasl.oauth == expected
    other = replace(settings, sasl=replace(settings.sasl, oauth=replace(expected, extensions=())))
    assert other.fingerprint != settings.fingerprint
