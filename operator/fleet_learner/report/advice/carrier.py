"""Who carries out a change, and the command for it.

The one idea: the place of a timeout depends on the protocol (docs/guide/timeouts.md). For a classic group the
operator sets it, without a command, unless `spec.sessionTimeout.seconds` does. The setting of a KIP-848 or Streams
group is the broker's: an operator writes it only if `spec.sessionTimeout.writeGroupConfig` is set. A Connect cluster
has it in its workers' configuration.
"""

from __future__ import annotations

import json
import shlex
from typing import Final

from fleet_learner.terminal import shell_word
from journal.recommendations import Recommendation, Setting

from ..model import GroupKey
from ..units import percent

FOLLOWING_SOURCES: Final = frozenset({"Structural", "Fleet"})
"""Sources of a timeout that an operator chooses, as it acts on a recommendation only then."""
FIXED_MS_MAX: Final = 1_800_000
"""The maximum of `spec.sessionTimeout.seconds`."""
_BROKERS: Final = '"$BOOTSTRAP"'
_AT_BROKER: Final = (Setting.CONSUMER_SESSION_TIMEOUT, Setting.STREAMS_SESSION_TIMEOUT)


def is_followed(recommendation: Recommendation, source: str | None) -> bool:
    """Return whether an operator carries out the recommendation without a person.

    Parameters
    ----------
    source: of the timeout in force, as the operator reports it; None: not known.
    """
    return recommendation.setting is Setting.SESSION_TIMEOUT and source in FOLLOWING_SOURCES


def carried_out(recommendation: Recommendation, key: GroupKey, source: str | None, then_ms: int) -> tuple[str, str]:
    """Return who sets the timeout of a group, and how.

    Parameters
    ----------
    source: of the timeout in force, as the operator reports it; None: not known.
    then_ms: the timeout to set.

    Returns
    -------
    tuple[str, str]
        A sentence, and the command; "" without one.
    """
    setting, wave = recommendation.setting, wave_note(recommendation)
    if setting is Setting.CONNECT_DELAY:
        who = "The team that deploys the Connect workers: write this into their configuration and roll them."
        return _joined(who, wave), f"{setting.value}={then_ms}"
    if setting in _AT_BROKER:
        who = (
            f"An administrator of Kafka cluster {key.kafka_cluster_id} who may alter the group's configuration, or "
            "the operator, with spec.sessionTimeout.writeGroupConfig; it holds at once, without a restart."
        )
        return _joined(who, wave), _group_config(key.group_id, setting.value, then_ms)
    if is_followed(recommendation, source):
        when = (
            "the operator does it, and each pod gets it with its next restart."
            if recommendation.released
            else f"the operator does it when its wave is released (the first {_wave(recommendation)} of all groups)."
        )
        return f"Nobody has to: {when}", ""
    if key.static_group and key.namespace and then_ms <= FIXED_MS_MAX:
        who = "The owner of the StaticGroup; each pod gets it with its next restart."
        return _joined(who, wave), _patch(key, then_ms, recommendation.bounds_maximum_ms)
    who = "The team that deploys the application: write this into its consumers' configuration and roll it."
    return _joined(who, wave), f"{setting.value}={then_ms}"


def wave_note(recommendation: Recommendation) -> str:
    """Return a note if the fleet's canary has not reached a group that is changed by hand; else ""."""
    if recommendation.released:
        return ""
    wave = f"wave of the first {_wave(recommendation)}"
    return f"The fleet's own canary has not reached it yet ({wave}): better one group at a time."


def bill_command(group_id: str | None = None) -> str:
    """Return the command that measures what rebalances cost, for one group or for all."""
    return f"fleet-learner bill --bootstrap {_BROKERS}" + (f" --group={shell_word(group_id)}" if group_id else "")


def lasting_bill() -> str:
    """Return how a measurement comes to count, because the command stores nothing."""
    return (
        "The command measures once and stores nothing: name the log under offsets_logs in the configuration, "
        "and each run measures and advises by it."
    )


def _wave(recommendation: Recommendation) -> str:
    return percent(recommendation.wave / 100)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _group_config(group_id: str, setting: str, then_ms: int) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {_BROKERS} --alter --entity-type groups "
        f"--entity-name {shell_word(group_id)} --add-config {setting}={then_ms}"
    )


def _patch(key: GroupKey, then_ms: int, maximum_ms: int | None) -> str:
    """Return whole seconds, rounded up unless that leaves the bounds."""
    up = -(-then_ms // 1000)
    seconds = up if maximum_ms is None or up * 1000 <= maximum_ms else then_ms // 1000
    patch = json.dumps({"spec": {"sessionTimeout": {"seconds": seconds}}}, separators=(",", ":"))
    return (
        f"kubectl -n {shlex.quote(key.namespace)} patch ksg {shlex.quote(key.static_group)} --type merge "
        f"-p {shlex.quote(patch)}"
    )
