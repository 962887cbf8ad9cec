"""One connection to one broker: aiokafka's TCP, TLS and SASL with the limits that a long-lived operator needs.

Why: aiokafka's connection dials whatever its host name resolves to, believes any frame length, and logs requests
(a SASL request holds the password). One idea: override the three places, keep the rest.
Source: aiokafka/conn.py 0.14 (create_connection, _read, _on_read_task_error); Kafka protocol guide.
"""

# aiokafka ships no types of its methods:
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import errors as aiokafka_errors
from aiokafka.conn import READER_LIMIT, AIOKafkaConnection, AIOKafkaProtocol, CloseReason
from aiokafka.util import create_future

from kafka_frames import BadFrame, TooManyElements

from ..core.group import KafkaProblem, KafkaProblemKind
from .addresses import HostPort
from .errors import Recovery, Refusal
from .login.credentials import ConnectionSettings
from .login.tokens import AiokafkaToken, TokenProvider
from .wire import ELEMENTS_MAX, Api, Call, VersionRanges, negotiate

FRAME_MAX_MIB = 8
FRAME_MAX_BYTES = FRAME_MAX_MIB * 1024 * 1024
"""The largest describe of 100 groups that we expect is 5 MB; a larger answer is not kept."""
DISCARD_MAX_BYTES = 64 * 1024 * 1024
"""Up to here an answer that is too large is taken off the wire, so that it fails alone; beyond, the connection goes."""
_PIECE_BYTES = 64 * 1024
CLIENT_ID = "staticgroup-operator"

T = TypeVar("T")


class FrameTooLarge(Exception):
    """The broker announced a frame beyond a limit."""


class LimitedConnection(AIOKafkaConnection):
    """Dial a checked address, verify the certificate for the host name, refuse oversized frames."""

    def __init__(self, target: HostPort, address: str, **options: Any) -> None:
        super().__init__(target.host, target.port, **options)
        self._address = address
        self._is_opened = False

    async def connect(self) -> tuple[Any, Any]:
        """Connect, ask for the API versions, log in; the caller bounds the time."""
        self._closed_fut = create_future()
        context = self._ssl_context
        reader = asyncio.StreamReader(limit=READER_LIMIT, loop=self._loop)
        protocol = AIOKafkaProtocol(self._closed_fut, reader, loop=self._loop)
        transport, _ = await self._loop.create_connection(
            lambda: protocol,
            self._address,
            self._port,
            ssl=context,
            server_hostname=self._host.rstrip(".") if context else None,
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        self._reader, self._writer, self._protocol = reader, writer, protocol
        self._read_task = self._create_reader_task()
        try:
            await self._do_version_lookup()
            if self._security_protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
                await self._do_sasl_handshake()
        except BaseException:
            self.close()
            raise
        self._is_opened = True
        return reader, writer

    @staticmethod
    async def _read(self_ref: Callable[[], LimitedConnection | None]) -> None:
        connection = self_ref()
        if connection is None:
            return
        reader: Any = connection._reader
        del connection  # so that a forgotten connection can be collected, as in aiokafka
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            connection = self_ref()
            if connection is None:
                return
            # Before the peer has shown that it is a broker, a large number is no size but another protocol.
            if not 0 <= size <= (DISCARD_MAX_BYTES if connection._is_opened else FRAME_MAX_BYTES):
                raise FrameTooLarge
            del connection
            frame = await (reader.readexactly(size) if size <= FRAME_MAX_BYTES else _discard(reader, size))
            connection = self_ref()
            if connection is None:
                return
            if not connection._requests:
                raise BadFrame("an answer that nobody asked for")
            if size <= FRAME_MAX_BYTES:
                connection._handle_frame(frame)
            else:
                connection._refuse_answer(frame)
            del connection, frame  # the next one may come in minutes

    def _refuse_answer(self, head: bytes) -> None:
        """Fail the request whose answer was too large to keep, and none of those that wait behind it."""
        correlation_id, _, answer = self._requests[0]
        if head != struct.pack(">i", correlation_id):
            raise FrameTooLarge
        if not answer.done():
            answer.set_exception(FrameTooLarge())
        self._requests.popleft()

    @classmethod
    def _on_read_task_error(
        cls, self_ref: Callable[[], LimitedConnection | None], read_task: asyncio.Task[None]
    ) -> None:
        if read_task.cancelled():
            return
        error = read_task.exception()
        connection = self_ref()
        if connection is not None and error is not None:
            # The frames hold what could not be read, and the connection, which holds the task.
            traceback.clear_frames(error.__traceback__)
            connection.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)


async def _discard(reader: Any, size: int) -> bytes:
    """Take a frame off the wire piece by piece and return its first four bytes, the correlation id."""
    head: bytes = await reader.readexactly(4)
    left = size - len(head)
    while left:
        left -= len(await reader.readexactly(min(left, _PIECE_BYTES)))
    return head


class _NothingBelowWarning(logging.Filter):
    """Drop aiokafka's debug and info records whatever level somebody sets: they show requests, passwords included."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING


_QUIET = _NothingBelowWarning()


def silence_library_loggers() -> None:
    """Keep the libraries from logging requests; safe to call again."""
    for name in ("aiokafka", "aiokafka.conn", "kio"):
        logging.getLogger(name).addFilter(_QUIET)
        logging.getLogger(name).setLevel(logging.WARNING)


@dataclass(eq=False, slots=True, kw_only=True)
class BrokerConnection:
    """An open connection and what the pool must know of it.

    Parameters
    ----------
    opened_at_s, used_at_s: monotonic seconds, kept by the pool.
    login_until_s: monotonic seconds at which the token of the login ends; brokers that ask for a new login then
        (KIP-368) close the connection.
    on_silence: is called with the seconds that a request waited in vain for its answer; None once a request was
        answered, because then the connection may only have been cut, which dialling again finds out.
    """

    target: HostPort
    raw: LimitedConnection
    opened_at_s: float
    used_at_s: float
    login_until_s: float = float("inf")
    in_flight: int = 0
    on_silence: Callable[[float], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return bool(self.raw.connected())

    @property
    def versions(self) -> VersionRanges:
        """The versions that this broker serves."""
        versions: VersionRanges = self.raw._versions
        return versions

    async def call(self, call: Call[T], deadline_s: float) -> T:
        """Send one request and read its answer.

        Parameters
        ----------
        deadline_s: loop time; when it passes the connection is closed, because answers match requests by order. A
            request whose time has passed is not sent.

        Raises
        ------
        Refusal: with `sent` True once the request may have reached the broker.

        Notes
        -----
        What could not be read is let go, and so is the exception that says so, which would hold the frames that it came
        through: a Refusal that somebody keeps is easily in a circle with its frames (runtime.process.heap).
        """
        version = negotiate(call.api, self.versions)
        if version is None:
            raise Refusal(too_old(self.target, call.api))
        if asyncio.get_running_loop().time() >= deadline_s:  # would end the connection under those who have time left
            raise Refusal(problem_of_failure(self.target, TimeoutError()), recovery=Recovery.FIND_COORDINATOR)
        body = await self._exchange(call, deadline_s)
        kind, text = KafkaProblemKind.ANSWER_TOO_LARGE, f"broker {self.target} answered {call.api.name} with"
        try:
            return call.decode(version, body)
        except TooManyElements:
            text = f"{text} more than {ELEMENTS_MAX} entries, which are not read"
        except BadFrame:
            kind = KafkaProblemKind.UNEXPECTED_ANSWER
            text = f"{text} something that is no such answer; check what listens there"
        del body
        raise Refusal(KafkaProblem(kind=kind, message=text), sent=True)

    async def _exchange(self, call: Call[T], deadline_s: float) -> bytes:
        """Send a request and return the body of its answer; the Refusal does not hold the exception, see `call`."""
        self.in_flight += 1
        began_s = asyncio.get_running_loop().time()
        recovery = Recovery.NONE
        try:
            async with asyncio.timeout_at(deadline_s):
                body: bytes = await self.raw.send(call)
                self.on_silence = None
                return body
        except FrameTooLarge:
            text = f"broker {self.target} answered {call.api.name} with more than {FRAME_MAX_MIB} MiB"
            problem = KafkaProblem(kind=KafkaProblemKind.ANSWER_TOO_LARGE, message=f"{text}, which is not read")
        except (aiokafka_errors.KafkaError, OSError, BadFrame) as error:
            self.close()
            if isinstance(error, TimeoutError) and self.on_silence is not None:
                self.on_silence(asyncio.get_running_loop().time() - began_s)
            problem = problem_of_failure(self.target, error)
            recovery = Recovery.FIND_COORDINATOR if problem.kind is KafkaProblemKind.UNREACHABLE else Recovery.NONE
        finally:
            self.in_flight -= 1
        raise Refusal(problem, recovery=recovery, sent=True)

    def close(self) -> None:
        """Close at once; those that wait for an answer get a Refusal."""
        self.raw.close()


async def open_connection(
    settings: ConnectionSettings, target: HostPort, address: str, *,
    context: ssl.SSLContext | None, tokens: TokenProvider | None, deadline_s: float, now_s: float,
) -> BrokerConnection:  # fmt: skip
    """Connect to one broker, TLS and SASL included.

    Parameters
    ----------
    context: None without TLS. tokens: only with OAUTHBEARER.

    Raises
    ------
    Refusal: UNREACHABLE, TLS_FAILED, AUTHENTICATION_FAILED or UNEXPECTED_ANSWER.
    """
    sasl = settings.sasl
    login = AiokafkaToken(tokens, sasl.oauth.extensions if sasl and sasl.oauth else ()) if tokens else None
    raw = LimitedConnection(
        target,
        address,
        client_id=CLIENT_ID,
        request_timeout_ms=int(settings.request_timeout_s * 1000),
        ssl_context=context,
        security_protocol=settings.security_protocol,
        sasl_mechanism=str(sasl.mechanism) if sasl else None,
        sasl_plain_username=sasl.username if sasl else None,
        sasl_plain_password=sasl.password.reveal() if sasl else None,
        sasl_oauth_token_provider=login,
    )
    try:
        async with asyncio.timeout_at(deadline_s):
            await raw.connect()
    except Refusal:  # of the token provider
        raise
    except Exception as error:  # a hostile or wrong peer can make aiokafka fail in any way
        raise Refusal(problem_of_failure(target, error), recovery=Recovery.BACK_OFF) from None
    until_s = login.until_s if login else float("inf")
    return BrokerConnection(target=target, raw=raw, opened_at_s=now_s, used_at_s=now_s, login_until_s=until_s)


_LOSSES = (TimeoutError, asyncio.CancelledError, OSError, EOFError, aiokafka_errors.KafkaConnectionError)
"""What a lost connection looks like; anything else in the chain of causes came from what the peer sent."""

_SASL_ERRORS = (
    aiokafka_errors.SaslAuthenticationFailed,
    aiokafka_errors.UnsupportedSaslMechanismError,
    aiokafka_errors.IllegalSaslStateError,
    aiokafka_errors.AuthenticationFailedError,
)


def problem_of_failure(target: HostPort, error: BaseException) -> KafkaProblem:
    """Name what an exception of socket, TLS, SASL or aiokafka means; its text is not used, it may hold anything.

    Refused, reset, silent and closing brokers have one wording: the status must not flap between them.
    """
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        kind = KafkaProblemKind.TLS_FAILED
        text = f"the certificate of broker {target} is not accepted; check its dates, its names and tls.caSecretRef"
    elif tls is not None:
        kind = KafkaProblemKind.TLS_FAILED
        text = f"the TLS handshake with broker {target} failed; check that it is a TLS listener, "
        text += "and whether it asks for a client certificate that it trusts"
    elif isinstance(error, _SASL_ERRORS):
        kind = KafkaProblemKind.AUTHENTICATION_FAILED
        text = f"broker {target} refused the log-in; check spec.sasl, and that its user, token or IAM role may log in"
    elif any(not isinstance(cause, _LOSSES) for cause in causes):
        kind, check = KafkaProblemKind.UNEXPECTED_ANSWER, "check what listens there"
        text = f"broker {target} answered something that is not Kafka's protocol or is too large; {check}"
    else:
        kind, check = KafkaProblemKind.UNREACHABLE, "check address, network policy"
        text = f"broker {target} does not answer; {check} and whether the listener expects TLS or SASL"
    return KafkaProblem(kind=kind, message=text)


def too_old(target: HostPort, api: Api) -> KafkaProblem:
    """Say which call a broker cannot serve."""
    text = f"broker {target} does not serve {api.name} in a version that tells instance ids"
    need = "run Kafka 2.4 or newer (for KIP-848 groups 3.8, for streams groups 4.4)"
    return KafkaProblem(kind=KafkaProblemKind.BROKER_TOO_OLD, message=f"{text}; {need}")
