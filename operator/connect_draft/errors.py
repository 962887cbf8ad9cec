"""Errors that only the Connect draft has."""

from __future__ import annotations

from enum import IntEnum

from coordinator_model.base.errors import ErrorCode


class DraftErrorCode(IntEnum):
    """Errors of the draft that Kafka never got (item 77); the draft gives no numbers, these are outside Kafka's range.

    FENCED_MEMBER_EPOCH and UNSUPPORTED_ASSIGNOR, new in the draft, came to Kafka with KIP-848 and are in ErrorCode.
    """

    COMPUTE_ASSIGNMENT = 10_001
    INVALID_ASSIGNMENT = 10_002


Code = ErrorCode | DraftErrorCode
"""Any error of a response of the draft."""


class DraftError(Exception):
    """A rule of the draft refused a request; `handle` turns it into the request's own error response."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


def require(condition: bool, code: Code, message: str) -> None:
    """Raise DraftError unless the condition holds."""
    if not condition:
        raise DraftError(code, message)
