"""Logs are one JSON object a line, quiet where libraries chatter, and no secret gets into any part of them."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from staticgroup.runtime.process import logs

SECRET = "p4ss-canary"


def lines(act: Any, *, log_format: str = "json", secrets: tuple[str, ...] = (SECRET,)) -> list[str]:
    """Return what a logger of ours writes while `act(logger)` runs."""
    stream = io.StringIO()
    logger = logging.getLogger("staticgroup.test-of-logs")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter() if log_format == "json" else logging.Formatter("%(message)s"))
    handler.addFilter(logs.MaskSecrets(lambda: secrets))
    logger.handlers[:], logger.propagate = [handler], False
    logger.setLevel("DEBUG")
    act(logger)
    return stream.getvalue().splitlines()


def test_line_is_one_json_object_with_its_fields_beside_the_message() -> None:
    (line,) = lines(lambda log: log.info("members removed", extra={"group_id": "orders", "count": 2}))
    written = json.loads(line)
    assert (written["message"], written["level"], written["group_id"], written["count"]) == (
        "members removed",
        "INFO",
        "orders",
        2,
    )
    assert written["logger"] == "staticgroup.test-of-logs"


def test_what_json_does_not_know_is_written_as_text() -> None:
    (line,) = lines(lambda log: log.info("x", extra={"key": ("shop", "orders"), "odd": object}))
    assert json.loads(line)["key"] == ["shop", "orders"]


def test_a_secret_that_begins_as_another_one_is_masked_whole() -> None:
    """As a rotated password often does: `autumn25` and `autumn25-b7`."""
    (line,) = lines(lambda log: log.info("was autumn25, is autumn25-b7"), log_format="text", secrets=("autumn25", "autumn25-b7"))
    assert line == "was ***, is ***"


def raise_with(secret: str) -> None:
    raise RuntimeError(f"login with {secret} failed")


def fail(log: logging.Logger) -> None:
    try:
        raise_with(SECRET)
    except RuntimeError:
        log.exception("round failed")


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize(
    "act",
    [
        lambda log: log.info("the password is " + SECRET),
        lambda log: log.info("the password is %s", SECRET),
        lambda log: log.warning("settings", extra={"password": SECRET}),
        lambda log: log.warning("settings", extra={"settings": {"sasl": {SECRET: [SECRET, (SECRET,)]}}}),
        lambda log: log.warning("settings", extra={"error": ValueError(SECRET)}),
        fail,
    ],
    ids=["message", "argument", "extra", "nested extra", "extra object", "exception"],
)
def test_secret_is_masked_wherever_it_hides(act: Any, log_format: str) -> None:
    written = "\n".join(lines(act, log_format=log_format))
    assert written
    assert SECRET not in written
    assert log_format == "text" or "***" in written


def test_numbers_and_texts_beside_a_secret_stay_as_they_are() -> None:
    (line,) = lines(lambda log: log.info("m", extra={"count": 3, "ratio": 0.5, "flag": True, "none": None}))
    written = json.loads(line)
    assert (written["count"], written["ratio"], written["flag"], written["none"]) == (3, 0.5, True, None)


def test_short_texts_are_not_masked_because_they_would_mask_everything() -> None:
    (line,) = lines(lambda log: log.info("abcabc"), secrets=("abc",))
    assert json.loads(line)["message"] == "abcabc"


@pytest.mark.usefixtures("untouched_logging")
@pytest.mark.parametrize(("level", "library"), [("DEBUG", "INFO"), ("INFO", "INFO"), ("ERROR", "ERROR")])
def test_libraries_that_print_their_configuration_are_held_at_info_or_above(level: str, library: str) -> None:
    logs.configure(level, "json", lambda: ())
    assert logging.getLogger().level == logging.getLevelName(level)
    for name in ("aiokafka", "kafka", "aiohttp", "kubernetes", "urllib3", "asyncio"):
        assert logging.getLogger(name).level == logging.getLevelName(library)


@pytest.mark.usefixtures("untouched_logging")
def test_kopf_says_nothing_about_single_events_at_any_level() -> None:
    for level in ("DEBUG", "INFO"):
        logs.configure(level, "json", lambda: ())
        assert not logging.getLogger("kopf.objects").isEnabledFor(logging.INFO)
        assert logging.getLogger("kopf.objects").isEnabledFor(logging.WARNING)


@pytest.mark.usefixtures("untouched_logging")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_configured_root_masks(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("INFO", log_format, lambda: (SECRET,))
    logging.getLogger("anything").info("token %s", SECRET)
    written = capsys.readouterr().err
    assert "token ***" in written
    assert SECRET not in written
