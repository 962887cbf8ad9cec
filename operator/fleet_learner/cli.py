"""The command line of the fleet learner.

The one idea: parse, and hand over to `jobs`. Nothing heavy is imported before a command runs, so help and errors are
quick, and without the extra `pipeline` a command says what to install.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final

from .errors import EXIT_LEFT_OUT

if TYPE_CHECKING:
    from .configuration import Configuration, MetricsSettings
    from .metrics import RunMetrics

EXIT_FINDING = 1
EXIT_USAGE = 2
EXIT_CONFLICT = 3
_CARE = ("tidy", "erase")
_MEASURED = ("run", "backfill")
_TELLING = ("run", "backfill", "report", "demo", "tidy", "erase")
"""Jobs that write into the folder for reports and recommendations."""
_FULL = "No space left on device"
_EXTRA = ("pyspark", "pyarrow", "numpy", "scipy", "confluent_kafka")
_FLAGS: Final[Mapping[str, dict[str, Any]]] = {
    "--root": {"metavar": "PLACE", "help": "of the tables: a folder, or a URI such as s3a://bucket/fleet"},
    "--output": {"type": Path, "metavar": "FOLDER", "help": "for report and recommendations"},
    "--window-days": {"type": int, "metavar": "DAYS", "help": "how far back facts are counted"},
    "--journal-files": {"type": Path, "metavar": "FOLDER", "help": "folder with journal files"},
    "--bootstrap": {"metavar": "HOST:PORT", "help": "Kafka bootstrap servers of the topic that is read"},
    "--topic": {"help": "the journal's topic"},
}
_OUTPUT: Final = ("--root", "--output")
_LEARNING: Final = (*_OUTPUT, "--window-days")
_EXAMPLES = """\
examples:
  fleet-learner demo --root ./fleet-demo
      A simulated fleet of 500 groups over 30 days, from its journal to the report.
  fleet-learner run --root /data/fleet --journal-files /data/journal
      Take in new journal files, count, estimate, recommend and write the report.
  fleet-learner run --config fleet.toml --bootstrap kafka:9092 --topic staticgroup-journal
      The same from a Kafka topic; flags win over the file.
  fleet-learner backfill --config fleet.toml --from 2026-10-01
      Make all outages from that day on again, for records that came too late.
  fleet-learner what-if --config fleet.toml --group kafka-01/team-07.orders
      What other timeouts would cost one group.
  fleet-learner audit --config fleet.toml --bootstrap kafka:9092 --cluster kafka-01
      Compare the journal with Kafka's own log of groups, rebalance by rebalance and removal by removal.
  fleet-learner erase --config fleet.toml --namespace team-07
      Delete all that is known of a namespace, rows and bytes, and learn again without it.
  fleet-learner bill --bootstrap kafka:9092 --json bill.json
      What rebalances cost every group of a cluster, and what would help, from that log alone.

exit status: 0 good, 1 a finding or failure, 2 wrong usage, 3 another run was faster,
4 done without a source that could not be read
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (see the help)."""
    options = _parser().parse_args(arguments)
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"fleet-learner needs {', '.join(missing)}: in a clone: pip install '.[pipeline]'\n")
        return EXIT_USAGE
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    from .configuration import ConfigurationError, read_configuration

    try:
        configuration = read_configuration(options.config, _flags(options))
    except ConfigurationError as error:
        return _failed(str(error), EXIT_USAGE)
    if options.job not in _MEASURED:
        return _ended(options, configuration)
    from .metrics import RunMetrics

    metrics, status = RunMetrics(), EXIT_FINDING
    try:
        status = _ended(options, configuration, metrics=metrics)
    finally:
        metrics.end(status, is_good=status in {0, EXIT_LEFT_OUT})
        _leave(metrics, configuration.metrics)
    return status


def _ended(options: argparse.Namespace, configuration: Configuration, **more: Any) -> int:
    """Run the job of a command and return how it ended."""
    from . import care, jobs
    from .configuration import ConfigurationError
    from .errors import ConflictError, JobError
    from .gold import NothingIngestedError

    job = getattr(care if options.job in _CARE else jobs, options.job)
    try:
        _assert_writable(options, configuration)
        status: int = job(configuration, **_job_options(options), **more)
    except ConfigurationError as error:
        return _failed(str(error), EXIT_USAGE)
    except ConflictError as error:
        return _failed(f"another run was faster: {error}", EXIT_CONFLICT)
    except (NothingIngestedError, JobError) as error:
        return _failed(str(error), EXIT_FINDING)
    except Exception as error:
        if _FULL not in str(error):
            raise
        return _failed(
            f"{_FULL.lower()}, below the root or where Spark keeps what does not fit into memory (spark.local.dir, "
            "/tmp): make room and run it again, it goes on from its plan",
            EXIT_FINDING,
        )
    return status


def _assert_writable(options: argparse.Namespace, configuration: Configuration) -> None:
    """Refuse an unwritable place for results before minutes of work are lost."""
    from .configuration import ConfigurationError

    def refused(name: str, place: Path, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"{name}: {place} cannot be written: {error.strerror}")

    file = getattr(options, "json_file", None)
    if file is not None:
        try:
            _try_file(file)
        except OSError as error:
            raise refused("--json", file, error) from None
    # A failure below the root is reported with the root's name.
    if options.job in _TELLING and (folder := configuration.output_folder) == configuration.output:
        try:
            _try_folder(folder)
        except OSError as error:
            raise refused("output", folder, error) from None


def _try_file(file: Path) -> None:
    """Open a file for writing and leave it unchanged; a pipe or a device is not touched."""
    is_new = not file.exists()
    if is_new or file.is_file() or file.is_dir():
        with file.open("ab"):
            pass
    if is_new:
        file.resolve().unlink()  # of a link, what it names


def _try_folder(folder: Path) -> None:
    """Check whether something can be created in the folder, or in its nearest existing parent."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    with TemporaryFile(dir=there):
        pass


def _leave(metrics: RunMetrics, where: MetricsSettings) -> None:
    """Write the figures where the configuration says; a failure is printed and changes no exit status."""
    from .metrics import MetricsError

    def tried(leave: Callable[[], None]) -> None:
        try:
            leave()
        except MetricsError as error:
            sys.stderr.write(f"fleet-learner: {error}\n")

    file, gateway = where.file, where.pushgateway
    if file is not None:
        tried(lambda: metrics.write(file))
    if gateway is not None:
        tried(lambda: metrics.push(gateway))


def _failed(text: str, status: int) -> int:
    from .terminal import printable

    # Errors are printed by line; names in them may hold any character.
    sys.stderr.write("".join(f"{printable(line)}\n" for line in f"fleet-learner: {text}".split("\n")))
    return status


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that flags give; None where a flag is missing."""
    names = ("root", "journal_files", "output", "master", "window_days")
    flags: dict[str, Any] = {name: getattr(options, name, None) for name in names}
    kafka = {"bootstrap_servers": getattr(options, "bootstrap", None), "topic": getattr(options, "topic", None)}
    given = {name: value for name, value in kafka.items() if value is not None}
    return flags | ({"kafka": given} if given else {})


def _job_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the command's own flags."""
    return {name: getattr(options, name) for name in options.own}


def instant_ms(text: str) -> int:
    """Read a day or an instant as Unix milliseconds: `2026-10-01`, `2026-10-01T12:00:00Z`.

    Raises
    ------
    argparse.ArgumentTypeError
        When it is neither, or lies before 1970.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day or an instant (ISO 8601)") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if aware.timestamp() < 0:
        raise argparse.ArgumentTypeError(f"{text!r} lies before 1970")
    return round(aware.timestamp() * 1000)


def group_name(text: str) -> tuple[str, str]:
    """Read `<Kafka cluster id>/<group id>`; the group id may hold slashes.

    Raises
    ------
    argparse.ArgumentTypeError
        When one of the two is missing.
    """
    cluster, slash, group = text.partition("/")
    if not (cluster and slash and group):
        raise argparse.ArgumentTypeError(f"{text!r} is not CLUSTER/GROUP")
    return cluster, group


def positive(text: str) -> int:
    """Read a number that is at least 1.

    Raises
    ------
    argparse.ArgumentTypeError
        When it is not.
    """
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def source_option(text: str) -> tuple[str, str]:
    """Read `<name>=<value>`, one of the client's settings, as an option of the Kafka source.

    Raises
    ------
    argparse.ArgumentTypeError
        When there is no name or no equals sign.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return f"kafka.{name.removeprefix('kafka.')}", value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleet-learner",
        description="From a fleet's restart history to the right session timeout of every group, on Spark.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = _command(commands, "run", "ingest, count, estimate, recommend and report", "run", "as_of_ms")
    _as_of(run)
    backfill = _command(commands, "backfill", "make old outages again", "backfill", "from_ms", "as_of_ms")
    backfill.add_argument(
        "--from", dest="from_ms", type=instant_ms, required=True, metavar="DAY", help="first day (UTC)"
    )
    _as_of(backfill)
    _audit(commands)
    _bill(commands)
    what_if = _command(commands, "what-if", "price other timeouts for one group", "what_if", "group", flags=("--root",))
    what_if.add_argument("--group", type=group_name, required=True, metavar="CLUSTER/GROUP")
    _command(commands, "tidy", "compact the tables and delete what no kept run needs", "tidy", flags=_LEARNING)
    erase = _command(
        commands,
        "erase",
        "delete all that is known of a group or a namespace",
        "erase",
        "group",
        "namespace",
        flags=_LEARNING,
    )
    what = erase.add_mutually_exclusive_group(required=True)
    what.add_argument("--group", type=group_name, metavar="CLUSTER/GROUP")
    what.add_argument("--namespace", metavar="NAME", help="of Kubernetes, in all clusters")
    _command(commands, "report", "write the report from the tables", "report", flags=_OUTPUT)
    demo = _command(commands, "demo", "simulate a fleet and run everything on it", "demo", "groups", "days", "seed")
    demo.add_argument("--groups", type=positive, default=500, help="default: %(default)s")
    demo.add_argument("--days", type=positive, default=30, help="default: %(default)s")
    demo.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    return parser


def _audit(commands: Any) -> None:
    own = ("kafka_cluster_id", "offsets_topic", "groups", "from_ms", "tolerance_ms", "json_file")
    audit = _command(commands, "audit", "compare the journal with __consumer_offsets", "audit", *own,
                     flags=("--root", "--bootstrap"))  # fmt: skip
    audit.add_argument(
        "--cluster", dest="kafka_cluster_id", required=True, metavar="ID", help="id of the Kafka cluster"
    )
    audit.add_argument("--offsets-topic", default="__consumer_offsets", help="default: %(default)s")
    audit.add_argument(
        "--group", dest="groups", action="append", default=[], metavar="ID", help="only this group; may be given again"
    )
    audit.add_argument(
        "--from", dest="from_ms", type=instant_ms, default=0, metavar="INSTANT",
        help="what happened before does not count (UTC); default: all that the log holds",
    )  # fmt: skip
    audit.add_argument(
        "--tolerance-ms", type=int, default=1_000, metavar="MS",
        help="how far the clocks of brokers and operators may be apart; default: %(default)s",
    )  # fmt: skip
    audit.add_argument("--json", dest="json_file", type=Path, metavar="FILE", help="write the same for programs")


def _bill(commands: Any) -> None:
    own = ("offsets_topic", "groups", "from_ms", "options", "is_sampled", "json_file")
    bill = _command(commands, "bill", "say what rebalances cost each group of a Kafka cluster", "bill", *own,
                    flags=("--bootstrap",))  # fmt: skip
    bill.set_defaults(root=Path())  # it has no tables
    bill.add_argument("--offsets-topic", default="__consumer_offsets", help="default: %(default)s")
    bill.add_argument(
        "--group", dest="groups", action="append", default=[], metavar="ID", help="only this group; may be given again"
    )
    bill.add_argument(
        "--from", dest="from_ms", type=instant_ms, default=0, metavar="INSTANT",
        help="what happened before does not count (UTC); default: all that the log holds",
    )  # fmt: skip
    bill.add_argument(
        "--options", action="append", type=source_option, default=[], metavar="KEY=VALUE",
        help="of the client, such as security.protocol=SSL; may be given again; secrets belong in the file of --config",
    )  # fmt: skip
    bill.add_argument(
        "--sample-end-offsets", dest="is_sampled", action="store_true",
        help="ask where each topic ends, to estimate the records delayed; needs Describe on the topics",
    )  # fmt: skip
    bill.add_argument("--json", dest="json_file", type=Path, metavar="FILE", help="write the same for programs")


def _command(
    commands: Any, name: str, text: str, job: str, *own: str, flags: Sequence[str] = tuple(_FLAGS)
) -> argparse.ArgumentParser:
    """Add a command with the configuration's flags that it uses; all take `--config` and `--master`."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(job=job, own=own)
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML or YAML; flags win over it")
    for flag in flags:
        parser.add_argument(flag, **_FLAGS[flag])
    parser.add_argument("--master", help="Spark master, such as local[2] (default: local[*])")
    return parser


def _as_of(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-of", dest="as_of_ms", type=instant_ms, metavar="INSTANT",
        help="end of the window (UTC); default: now",
    )  # fmt: skip
