"""Structured logs: one JSON object a line, fields beside the message, no bodies and no secrets.

Libraries that print their configuration (and with it passwords) at DEBUG are held at INFO or above whatever the
level is, and every value a Secret gave us is masked by exact match as a second net.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

LOUDEST_LEVELS = {
    **dict.fromkeys(("aiokafka", "kafka", "aiohttp", "asyncio", "kubernetes", "urllib3"), logging.INFO),
    # One line for each event of each object otherwise.
    "kopf.objects": logging.WARNING,
}
"""Loggers of libraries, each with the level below which it says nothing whatever our own level is."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class MaskSecrets(logging.Filter):
    """Replace every known secret in a record by ***.

    Parameters
    ----------
    secrets: returns the secrets held now; values shorter than 4 characters are not masked.
    """

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask in place; every record passes."""
        known = [s for s in self._secrets() if len(s) >= 4]
        if known:
            text = record.getMessage()
            masked = mask(text, known)
            if masked != text:
                record.msg, record.args = masked, None
            if record.exc_text is None and record.exc_info:
                record.exc_text = logging.Formatter().formatException(record.exc_info)
            if record.exc_text:
                record.exc_text = mask(record.exc_text, known)
            for name in vars(record).keys() - _STANDARD:
                setattr(record, name, _masked(getattr(record, name), known))
        return True


def _masked(value: object, secrets: Sequence[str]) -> object:
    """Mask an extra field, whatever it holds; what is neither text nor number becomes text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {mask(str(k), secrets): _masked(v, secrets) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(v, secrets) for v in value]
    return mask(str(value), secrets)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret replaced by ***; the longest first, so that no rest of a longer one is left."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class TextFormatter(logging.Formatter):
    """Write a record as one line for people, its extra fields behind the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and an exception's lines after it."""
        fields = " ".join(f"{k}={v}" for k, v in _extra(record).items())
        head = f"{self.formatTime(record)} {record.levelname:7} {record.name} {record.getMessage()}"
        line = f"{head} {fields}" if fields else head
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return f"{line}\n{record.exc_text}" if record.exc_text else line


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that the caller gave beside the message."""
    return {k: v for k, v in vars(record).items() if k not in _STANDARD and not k.startswith("_")}


class JsonFormatter(logging.Formatter):
    """Write a record as one JSON object with its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(_extra(record))
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, default=str)


def configure(level: str, log_format: str, secrets: Callable[[], Iterable[str]]) -> None:
    """Send all logs to standard error in the chosen form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(MaskSecrets(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, floor in LOUDEST_LEVELS.items():
        logging.getLogger(name).setLevel(max(floor, logging.getLevelName(level)))
