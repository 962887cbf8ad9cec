"""The configuration of a run of the fleet learner: one file, and flags that override it.

The one idea: every figure that a result depends on is here, with a default and a unit in its name, so the configuration
and the tables together explain a result. Files are TOML or YAML, by their name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from staticgroup.api.schema import TIMEOUT_MS_MAX

from .lake import local_path, uri_of
from .report.model import Money

PositiveInt = Annotated[int, Field(gt=0)]


def _from_home(place: Any, info: ValidationInfo) -> Any:
    """Expand `~` and `~name` at the beginning of a path, as a shell does: in a file no shell does it."""
    if not isinstance(place, str | Path) or not str(place).startswith("~"):
        return place
    try:
        return Path(place).expanduser()
    except RuntimeError:
        raise ValueError(f"{info.field_name}: {place}: there is no such home folder") from None


LocalPath = Annotated[Path, BeforeValidator(_from_home)]


class ConfigurationError(ValueError):
    """The configuration cannot be used; the text says why in one line."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaJournal(_Section):
    """The journal's topic."""

    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field("staticgroup-journal", min_length=1)
    options: dict[str, str] = Field({}, description="More options of the source, such as kafka.security.protocol.")
    records_per_run: PositiveInt | None = None


class NamedJournal(KafkaJournal):
    """The journal's topic in one of several Kafka clusters."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Keeps the positions; a new name is read from the beginning.",
    )


class OffsetsLogSettings(_Section):
    """The `__consumer_offsets` of a Kafka cluster, which needs READ on that topic and no right on any group."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Keeps the positions; a new name is read from the beginning.",
    )
    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field("__consumer_offsets", min_length=1)
    options: dict[str, str] = Field({}, description="More options of the source, such as kafka.security.protocol.")


class MetricsSettings(_Section):
    """Where a run leaves its figures for an alert; nowhere by default."""

    file: LocalPath | None = None
    pushgateway: str | None = Field(None, pattern=r"^https?://[^@?#]+$", description="Without a user or a password.")


class Stops(_Section):
    """How long a stopped partition is without a consumer in one rebalance."""

    eager_ms: PositiveInt = 3_000
    cooperative_ms: PositiveInt = 300
    classic_is_cooperative: bool = False


HeartbeatMs = Annotated[PositiveInt, Field(le=TIMEOUT_MS_MAX // 3)]
"""Three heartbeats have to fit into the longest session timeout that is ever recommended."""


class BrokerBounds(_Section):
    """What the brokers of a Kafka cluster and its clients allow; Kafka's defaults."""

    classic_minimum_ms: PositiveInt = 6_000
    classic_maximum_ms: PositiveInt = 1_800_000
    consumer_minimum_ms: PositiveInt = 45_000
    consumer_maximum_ms: PositiveInt = 60_000
    streams_minimum_ms: PositiveInt = 45_000
    streams_maximum_ms: PositiveInt = 60_000
    classic_heartbeat_ms: HeartbeatMs = 3_000
    consumer_heartbeat_ms: HeartbeatMs = 5_000
    streams_heartbeat_ms: HeartbeatMs = 5_000


class ReportSettings(_Section):
    """Prices for the report; without a price it writes nothing in money.

    Parameters
    ----------
    currency: written after each sum, such as EUR.
    price_per_partition_hour: of a partition that stands still for an hour.
    price_per_delayed_message: of one record that is consumed late.
    """

    currency: str | None = Field(None, min_length=1, max_length=12)
    price_per_partition_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    price_per_delayed_message: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _has_currency(self) -> Self:
        is_priced = self.price_per_partition_hour is not None or self.price_per_delayed_message is not None
        if is_priced and self.currency is None:
            raise ValueError("report: a price needs a currency, such as currency: EUR")
        return self

    @property
    def money(self) -> Money | None:
        """Return the prices for a report; None without one."""
        if self.currency is None or (self.price_per_partition_hour is None and self.price_per_delayed_message is None):
            return None
        return Money(
            currency=self.currency,
            price_per_partition_hour=self.price_per_partition_hour,
            price_per_delayed_message=self.price_per_delayed_message,
        )


class Configuration(_Section):
    """All settings of a run.

    Parameters
    ----------
    root: place of the tables, a folder or a Hadoop URI (`s3a://bucket/fleet`); every process of the run must see it.
    journal_files: folder with journal files, searched recursively.
    kafka: the journal's topic.
    kafka_clusters: more journal topics, each with a name of its own. One that cannot be read is left out and the run
        ends with status 4.
    offsets_logs: Kafka's own record of the groups of a cluster, for the bill and for measured prices; one that cannot
        be read is left out.
    metrics: where a run leaves its figures.
    output: folder for reports and recommendations; default: below the root, if that is a folder.
    window_days: how far back facts are counted and estimates look.
    rewrite_days: how far back outages are recomputed for late records, and how far around a fact copies are searched.
    valid_days: how long a recommendation may be used.
    keep_runs: how many states of the tables stay readable, at least the last and its predecessor; files that none of
        them needs are deleted after a run, at the earliest a day after they were replaced.
    brokers: bounds by Kafka cluster id; `default` is for all other clusters.
    report: what partition time and delayed messages are worth, for the report.
    is_replayed: compare with dynamic members by replaying the timeline, the most expensive part of a run.
    master: Spark's master; None leaves it to spark-submit.
    spark: more of Spark's settings.
    """

    root: str
    journal_files: LocalPath | None = None
    kafka: KafkaJournal | None = None
    kafka_clusters: tuple[NamedJournal, ...] = ()
    offsets_logs: tuple[OffsetsLogSettings, ...] = ()
    metrics: MetricsSettings = MetricsSettings()
    output: LocalPath | None = None
    window_days: PositiveInt = 30
    rewrite_days: PositiveInt = 3
    valid_days: PositiveInt = 7
    keep_runs: Annotated[int, Field(ge=2)] = 30
    stops: Stops = Stops()
    brokers: dict[str, BrokerBounds] = {}
    report: ReportSettings = ReportSettings()
    is_replayed: bool = True
    master: str | None = "local[*]"
    spark: dict[str, str] = {}

    @field_validator("root", mode="before")
    @classmethod
    def _is_uri(cls, root: Any, info: ValidationInfo) -> Any:
        place = _from_home(root, info)
        return uri_of(place) if isinstance(place, str | Path) and str(place) else place

    @model_validator(mode="after")
    def _are_distinct(self) -> Self:
        for key, named in (("kafka_clusters", self.kafka_clusters), ("offsets_logs", self.offsets_logs)):
            names = [each.name for each in named]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key}: two have the name {twice[0]}")
        return self

    @property
    def output_folder(self) -> Path:
        """Return where reports and recommendations go.

        Raises
        ------
        ConfigurationError
            When no output is configured and the root is not a local folder.
        """
        folder = local_path(self.root)
        if self.output is not None:
            return self.output
        if folder is None:
            raise ConfigurationError(f"output: name a folder for reports and recommendations, {self.root} is none")
        return folder / "output"


_SECTIONS: Final = (
    Configuration, KafkaJournal, NamedJournal, OffsetsLogSettings, MetricsSettings, Stops, BrokerBounds, ReportSettings
)  # fmt: skip
_MEANT: Final = {
    "dict_type": "takes settings of its own, each a key and a value",
    "model_type": "takes settings of its own, each a key and a value",
    "model_attributes_type": "takes settings of its own, each a key and a value",
    "list_type": "takes a list",
    "tuple_type": "takes a list",
    "int_parsing": "takes a whole number",
    "int_type": "takes a whole number",
    "int_from_float": "takes a whole number",
    "float_parsing": "takes a number",
    "float_type": "takes a number",
    "bool_parsing": "takes true or false",
    "bool_type": "takes true or false",
    "string_type": "takes a text, in quotes where it looks like a number",
}
"""What pydantic's type errors mean to the author of a file."""
_KEYS: Final = sorted({name for section in _SECTIONS for name in section.model_fields})


def read_configuration(path: Path | None, flags: Mapping[str, Any]) -> Configuration:
    """Read a file and let the flags override it.

    Parameters
    ----------
    path: a `.toml`, `.yaml` or `.yml` file; None without a file.
    flags: settings by name; None stands for a flag that was not given. `kafka` is merged field by field.

    Raises
    ------
    ConfigurationError
        When the file cannot be read, or a setting is unknown, missing or out of its range.
    """
    settings = dict(_parsed(path)) if path is not None else {}
    for name, value in flags.items():
        if value is None:
            continue
        is_section = isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
        settings[name] = {**settings[name], **value} if is_section else value
    try:
        return Configuration.model_validate(settings)
    except ValidationError as error:
        # A misspelled key explains the missing one, so it is reported first.
        found = sorted(
            error.errors(include_input=False, include_url=False), key=lambda e: e["type"] != "extra_forbidden"
        )
        first = found[0]
        raise ConfigurationError(_problem(first["loc"], first["type"], first["msg"])) from None


def _problem(place: tuple[int | str, ...], kind: str, text: str) -> str:
    """Say in one line which key is wrong, and how."""
    name = ".".join(str(part) for part in place)
    if kind == "missing":
        return f"{name}: has to be given" + (", in the file of --config or with --root" if name == "root" else "")
    if kind == "extra_forbidden":
        near = get_close_matches(str(place[-1]), _KEYS, 1)
        return f"{name}: there is no such key" + (f"; {near[0]}?" if near else "")
    if kind in _MEANT:
        return f"{name}: {_MEANT[kind]}"
    problem = text.removeprefix("Value error, ")  # those are ours, and name their key
    return problem if kind == "value_error" else f"{name}: {problem}"


def _parsed(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        parsed = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark
        where = "" if at is None else f", line {at.line + 1}, column {at.column + 1}"
        raise ConfigurationError(f"{path}{where}: {error.problem}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {str(error).splitlines()[0]}") from None
    if not isinstance(parsed, Mapping):
        raise ConfigurationError(f"{path}: not a table of settings")
    return parsed
