"""The command line: what people type, and what is printed and returned for it.

One table of commands serves `staticgroup` and `kubectl staticgroup`, by argparse: the plugin needs Python alone.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from .. import __version__
from ..api import names
from ..api.remedies import hint
from ..kube.problem import KubeProblem, KubeProblemKind
from . import conversion, doctor
from .api_server import GROUP_PATH, ApiServer, Json, Refused, api_server, run
from .explanation import explanation_of
from .status_table import ASK_DOCTOR, lines_of, summary_of

EXIT_FINDING, EXIT_USAGE = 1, 2
CRDS, SCHEMAS = "crds.yaml", "schemas.json"
"""What the build of the plugin writes beside this file: what `crds` prints, and the schemas of the statuses."""
_EPILOG: Final = """\
exit status: 0 good, 1 a finding or a failure, 2 wrong usage or a malformed setting

status, explain and doctor go through your kubectl, with your rights. run, webhook
and plan need the operator's libraries, so they run in its pod, where doctor also
asks Secrets and brokers:
  kubectl -n staticgroup-system exec deploy/staticgroup-operator -- staticgroup doctor
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["simulate"]:
        return _simulate(words)
    parser = _parser()
    unset = argparse.Namespace(namespace="", context="", kubeconfig="", impersonated="")
    options = parser.parse_args(words, unset)
    own = {"status": _status, "explain": _explain, "doctor": _doctor, "convert": _convert, "crds": _crds}
    call = own.get(options.command)
    try:
        status: int = call(options) if call else _operator_commands(words).carry_out(options)
    except Refused as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.status
    return status


class _Parser(argparse.ArgumentParser):
    """A parser that names the nearest command or flag to a mistyped one, and takes none by its beginning alone."""

    known: Sequence[str] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong, and end with status 2."""
        mistyped = re.search(r"(?:invalid choice: '|unrecognized arguments: )([\w-]+)", message)
        super().error(message + (hint(mistyped[1], self.known) if mistyped else ""))


def _parser() -> _Parser:
    where, reach, everywhere, output = (_Parser(add_help=False) for _ in range(4))
    # Suppressed defaults: a flag may stand before or after the command, and the second parser does not unset it.
    unset = argparse.SUPPRESS
    where.add_argument("-n", "--namespace", default=unset, help="namespace (default: that of the context or pod)")
    reach.add_argument("--context", default=unset, help="as for kubectl")
    reach.add_argument("--kubeconfig", default=unset, help="as for kubectl")
    reach.add_argument("--as", dest="impersonated", metavar="USER", default=unset, help="as for kubectl")
    everywhere.add_argument("-A", "--all-namespaces", action="store_true", help="every namespace")
    output.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form (default: text)")

    parser = _Parser(
        prog="kubectl staticgroup" if Path(sys.argv[0]).name.startswith("kubectl-") else "staticgroup",
        description="Makes Kafka static membership on Kubernetes safe and automatic.",
        epilog=_EPILOG, parents=[where, reach],
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"staticgroup {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")

    def command(name: str, text: str, *flags: _Parser) -> _Parser:
        return commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", parents=flags)

    status = command("status", "show StaticGroups, and what is not as it should be", where, everywhere, output, reach)
    status.add_argument("name", nargs="*", metavar="NAME", help="only these (default: all of the namespace)")
    explain = command("explain", "say in sentences what the operator wrote about one StaticGroup", where, reach)
    explain.add_argument("name", metavar="NAME", help="name of the StaticGroup")
    command("doctor", "check that everything is there that the operator needs", where, everywhere, output, reach)
    plan = command("plan", "say what a round would do now and hold back, and write nothing", where)
    source = plan.add_mutually_exclusive_group(required=True)
    source.add_argument("name", nargs="?", metavar="NAME", help="name of the StaticGroup")
    source.add_argument(
        "-f", "--filename", type=Path, metavar="FILE", help="plan in the world that --snapshot recorded"
    )
    plan.add_argument("--snapshot", type=Path, metavar="FILE", help="also write what was read, for -f; no credentials")
    convert = command("convert", "print the StatefulSet that replaces a Deployment, and the steps", where, reach)
    source = convert.add_mutually_exclusive_group(required=True)
    source.add_argument("name", nargs="?", metavar="deployment/NAME", help="a Deployment of the cluster")
    source.add_argument("-f", "--filename", metavar="FILE", help="the Deployment in this file, - for standard input")
    command("simulate", "show what a group goes through with and without StaticGroup; needs no cluster")
    command("crds", "print the CustomResourceDefinitions, for kubectl apply -f -")
    command("run", "run the operator until SIGTERM")
    command("webhook", "give new pods their ids before Kubernetes 1.36, until SIGTERM")
    texts = "".join(each.format_help() for each in (parser, *commands.choices.values()))
    parser.known = [*commands.choices, *dict.fromkeys(re.findall(r"--[a-z-]+", texts))]
    return parser


def _operator_commands(words: Sequence[str]) -> Any:
    """Return the module of the commands that need the operator's libraries, which the plugin does not carry."""
    try:
        from .operator import commands
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(f"{__package__}.operator"):
            raise
        typed = f"{doctor.Installed().command} {shlex.join(words)}"
        raise Refused(f"this needs the operator's libraries; run it in the operator's pod: {typed}") from error
    return commands


def _carried(name: str) -> str:
    """Return a file that the build of the plugin wrote; "" elsewhere, where the models say the same."""
    try:
        return (pkgutil.get_data(__package__, name) or b"").decode()
    except OSError:
        return ""


def _crds(options: argparse.Namespace) -> int:
    print(_carried(CRDS) or _operator_commands(["crds"]).definitions(), end="")
    return 0


def _simulate(words: Sequence[str]) -> int:
    """Say where the simulator is, which neither the operator's image nor the plugin carries."""
    typed = shlex.join(["pipx", "run", "--spec", ".", "staticgroup", *words])
    print(f"the simulator is not in here; with Python 3.11, in a checkout of the source, run: {typed}", file=sys.stderr)
    return EXIT_USAGE


def _api(options: argparse.Namespace) -> ApiServer:
    named = {"context": options.context, "kubeconfig": options.kubeconfig, "as": options.impersonated}
    return api_server([f"--{key}={value}" for key, value in named.items() if value])


def _namespace(options: argparse.Namespace, api: ApiServer) -> str:
    """Return the namespace that is meant; "" for all."""
    if getattr(options, "all_namespaces", False):
        return ""
    return options.namespace or api.default_namespace()


def _status(options: argparse.Namespace) -> int:
    api = _api(options)
    namespace = _namespace(options, api)
    if options.name and not namespace:
        raise Refused("a NAME is of one namespace; leave out -A, or the name", EXIT_USAGE)
    bodies = [_one(api, namespace, name) for name in options.name]
    if not bodies:
        listed = api.items(GROUP_PATH, f"{names.STATIC_GROUP_PLURAL}.{names.GROUP}", namespace=namespace)
        if isinstance(listed, KubeProblem):
            raise Refused(_why(listed))
        bodies = listed
    if options.output == "json":
        _print_json({"items": [summary_of(body) for body in bodies]})
    elif bodies:
        print("\n".join(lines_of(bodies, datetime.now(UTC))))
    else:
        print(f"no StaticGroup in {f'namespace {namespace}' if namespace else 'any namespace'}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    api = _api(options)
    body = _one(api, _namespace(options, api), options.name)
    print("\n".join(explanation_of(body, datetime.now(UTC))))
    return 0


def _one(api: ApiServer, namespace: str, name: str) -> Json:
    path = f"{GROUP_PATH}/namespaces/{quote(namespace)}/{names.STATIC_GROUP_PLURAL}/{quote(name)}"
    found = api.read(path, resource=f"{names.STATIC_GROUP_PLURAL}.{names.GROUP}", namespace=namespace)
    if isinstance(found, KubeProblem):
        is_absent = found.kind is KubeProblemKind.NOT_FOUND and f'"{name}"' in found.message
        raise Refused(f"there is no StaticGroup {namespace}/{name}" if is_absent else _why(found))
    return found


def _why(problem: KubeProblem) -> str:
    if problem.kind is KubeProblemKind.NOT_FOUND:
        return f"this cluster serves no StaticGroups; run: {ASK_DOCTOR}"
    return problem.message


def _doctor(options: argparse.Namespace) -> int:
    api, results, not_checked = _api(options), list[doctor.CheckResult](), ""

    def show(result: doctor.CheckResult) -> None:
        results.append(result)
        if options.output == "text":
            print(result, flush=True)

    if doctor.LEASE_MARK in os.environ:
        _operator_commands([]).doctor(api, options.namespace, show)
    else:
        schemas = json.loads(_carried(SCHEMAS) or "null") or _operator_commands([]).status_schemas()
        for result in doctor.examine(api, _namespace(options, api), schemas, datetime.now(UTC)):
            show(result)
        not_checked = doctor.only_the_operator_knows(api)
    problems = sum(each.is_fatal and not each.is_good for each in results)
    if options.output == "json":
        rows = [asdict(r) | {"mark": r.mark, "remedy": "" if r.is_good else r.remedy} for r in results]
        _print_json({"findings": rows, "problems": problems, "notChecked": not_checked})
    else:
        warnings = sum(not each.is_fatal and not each.is_good for each in results)
        said = f"problems: {problems}, warnings: {warnings}" if problems or warnings else "no problem found"
        print(*filter(None, [not_checked, said]), sep="\n")
    return EXIT_FINDING if problems else 0


def _convert(options: argparse.Namespace) -> int:
    kind, _, name = (options.name or "").rpartition("/")
    if options.filename:
        found = conversion.read_file(options.filename, sys.stdin.read() if options.filename == "-" else "", run)
    elif kind in ("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"):
        api = _api(options)
        found = conversion.read_cluster(api, _namespace(options, api), name)
    else:
        raise Refused(f"{options.name} is no deployment/NAME", EXIT_USAGE)
    objects, words = conversion.convert(*found)
    print(conversion.as_yaml(objects, run), end="")
    print(words, file=sys.stderr)
    return 0


def _print_json(what: Json) -> None:
    print(json.dumps(what, indent=2, ensure_ascii=False))
