"""Tables in S3: Spark settings besides Delta's own jars, and errors that say what to do.

The one idea: the store itself decides between two writers. A commit of Delta is an object that must not exist yet; the
log store of this project (`S3ConditionalLogStore.java`) makes the store refuse a second object of the same name, as S3
supports since 2024. `probe` checks this support before anything is written.

The AWS SDK finds credentials in its usual places: environment, web identity, shared file, the pod's or the machine's
role. Nothing here takes or shows credentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..errors import JobError
from .s3_jars import LOG_STORE, s3_jar_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME: Final = "s3a"
PROBE: Final = "_runs/.probe-"
"""Prefix of the objects that a run creates to test the store."""
_ENDPOINT: Final = "spark.hadoop.fs.s3a.endpoint"
_CONDITIONAL: Final = "spark.hadoop.fs.s3a.create.conditional.enabled"
_CREDENTIALS: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.hadoop.fs.s3a.aws.credentials.provider": _CREDENTIALS,
    # By default the client retries for minutes before it reports an unreachable store.
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "4",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "10s",
}
_SECRETS: Final = ("access.key", "secret.key", "session.token", "encryption.key")
_EXPLANATIONS: Final = (
    (("UnknownStoreException", "NoSuchBucket"), "the bucket {bucket} is not there: make it, or correct `root`"),
    (
        ("CredentialInitialization", "Unable to load credentials", "NoAwsCredentials", "NoAuthWithAWS"),
        "no credentials were found: give AWS_SHARED_CREDENTIALS_FILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or "
        "a role",
    ),
    (
        ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "No user exists"),
        "the store refuses the credentials that were found: see that they are right and in force, and may list, read, "
        "write and delete there",
    ),
    (
        (
            "UnknownHost",
            "ConnectException",
            "ConnectTimeout",
            "NoRouteToHost",
            "SSLException",
            "SSLHandshake",
            "SocketTimeout",
        ),
        "nobody answers at {endpoint}: see that the endpoint is right, and that this machine may reach it",
    ),
)


class ObjectStoreError(JobError):
    """The object store cannot be used; the text says what to do."""


def is_in_object_store(root: str) -> bool:
    """Return whether a root lies in an object store.

    Raises
    ------
    ObjectStoreError: its URI cannot work, or carries credentials.
    """
    parts = urlsplit(root)
    if parts.scheme in {"s3", "s3n"}:
        raise ObjectStoreError(f"root: write {SCHEME}:// for {parts.scheme}://, which has no client here")
    if parts.scheme != SCHEME:
        return False
    if "@" in parts.netloc:
        raise ObjectStoreError("root: credentials do not belong in a URI: give them by environment, file or role")
    if not parts.netloc:
        raise ObjectStoreError(f"root: name the bucket: {SCHEME}://BUCKET/FOLDER")
    return True


def settings_for(root: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for tables below a root: the caller's, and those that the root's scheme needs.

    Raises
    ------
    ObjectStoreError: the root cannot be used, or `given` holds a key, a secret or a token.
    JobError: a jar is missing and cannot be fetched.
    """
    if not is_in_object_store(root):
        return dict(given)
    settings = s3_settings(given)
    jars = [name for name in settings.get("spark.jars", "").split(",") if name]
    jars += map(str, s3_jar_paths())
    return settings | ({"spark.jars": ",".join(jars)} if jars else {})


def s3_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for S3, without jars; `given` wins.

    A server named by `spark.hadoop.fs.s3a.endpoint` gets path-style requests. Without conditional writes
    (`spark.hadoop.fs.s3a.create.conditional.enabled=false`) Delta's own log store remains, which supports one writer.
    """
    for name in given:
        if ".fs.s3a." in name and name.endswith(_SECRETS):
            raise ObjectStoreError(
                f"{name}: secrets do not belong in a configuration: give them by environment, file or role"
            )
    settings = dict(_SETTINGS)
    if given.get(_CONDITIONAL, "true") != "false":
        settings["spark.delta.logStore.s3a.impl"] = LOG_STORE
    if _ENDPOINT in given:
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return settings | dict(given)


def probe(spark: SparkSession, root: str, name: str | None) -> None:
    """Check that the store answers, allows writes, and refuses an object that exists already.

    Parameters
    ----------
    name: unique name of a test object below the root, which is deleted afterwards. None: test no write.

    Raises
    ------
    ObjectStoreError: a check failed; the text says what to do.
    """
    hadoop = _java(spark)._jsc.hadoopConfiguration()
    try:
        is_fit = _is_exclusive(spark, f"{root.rstrip('/')}/{name}") if name is not None else _is_there(spark, root)
    except Exception as error:
        raise ObjectStoreError(explanation(error, root, hadoop.get("fs.s3a.endpoint") or "AWS")) from None
    if not is_fit:
        raise ObjectStoreError(
            f"{root}: the store overwrites an object that must not be there yet (it ignores If-None-Match), so nothing "
            "keeps two runs"
            f' apart. Say {_CONDITIONAL}: "false" below `spark`, and see to it that one run writes at a time'
        )


def _java(spark: SparkSession) -> Any:
    return spark.sparkContext


def _is_there(spark: SparkSession, root: str) -> bool:
    """List the root; a missing root is no error."""
    path = _java(spark)._jvm.org.apache.hadoop.fs.Path(root)
    path.getFileSystem(_java(spark)._jsc.hadoopConfiguration()).exists(path)
    return True


def _is_exclusive(spark: SparkSession, uri: str) -> bool:
    """Write an object and return whether the store refuses a second one of its name, if configured to."""
    hadoop = _java(spark)._jsc.hadoopConfiguration()
    path = _java(spark)._jvm.org.apache.hadoop.fs.Path(uri)
    store = path.getFileSystem(hadoop)
    store.create(path, True).close()
    try:
        is_asked = hadoop.get(_CONDITIONAL.removeprefix("spark.hadoop."), "true") != "false"
        return not is_asked or _is_refused(store, path)
    finally:
        store.delete(path, False)


def explanation(error: BaseException, root: str, endpoint: str) -> str:
    """Return in one line why a store cannot be used and what to do, without its own message, which may name a key."""
    causes = list(_causes(error))
    said = " ".join(f"{kind} {text}" for kind, text in causes)
    for signs, advice in _EXPLANATIONS:
        if any(sign in said for sign in signs):
            return f"{root}: " + advice.format(bucket=urlsplit(root).netloc, endpoint=endpoint)
    kind = causes[-1][0] if causes else type(error).__name__
    return f"{root}: the object store cannot be used ({kind.rpartition('.')[2]})"


def _causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield class and text of a Java exception and of its causes."""
    cause: Any = getattr(error, "java_exception", None)
    while cause is not None:
        yield str(cause.getClass().getName()), str(cause.getMessage())
        cause = cause.getCause()


def _is_refused(store: Any, path: Any) -> bool:
    """Return whether the store is configured to refuse a second object of one name."""
    stream = store.createFile(path).create().must("fs.option.create.conditional.overwrite", True).build()
    try:
        stream.close()
    except Exception as error:
        if any(kind.endswith("RemoteFileChangedException") for kind, _ in _causes(error)):
            return True
        raise
    return False
