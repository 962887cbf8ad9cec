"""The command line of the plugin: `status`, `explain`, `doctor`."""

from __future__ import annotations

import argparse
import json
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from urllib.parse import quote

from ..api import names
from ..kube.problem import KubeProblem, KubeProblemKind
from ..runtime.commands.person import Refused, plain
from . import checkup
from .account import account_of
from .kubectl import GROUP_PATH, Json, Kubectl, NoKubectl
from .summary import lines_of, summary_of

BUILT = "built.json"
"""What the build writes beside this file: the version, and the schemas of the statuses."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 good, 1 a finding or a refusal, 2 wrong usage)."""
    options = _parser().parse_args(arguments)
    kube = Kubectl(_flags(options), kubectl=options.kubectl)
    try:
        status: int = options.command(options, kube)
    except (Refused, NoKubectl) as error:
        print(f"kubectl staticgroup: {error}", file=sys.stderr)
        return 1
    return status


def built() -> Json:
    """Return what the build wrote; outside a built plugin no version and no schemas."""
    try:
        found: Json = json.loads(pkgutil.get_data(__package__, BUILT) or b"{}")
    except OSError:
        return {"version": "unbuilt", "schemas": {}}
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kubectl staticgroup",
        description="See StaticGroups with your own rights, through your own kubectl.",
        epilog="It reads statuses and runs nothing in any pod. The operator's own command line is `python -m staticgroup`.",
    )
    parser.add_argument("--version", action="version", version=f"kubectl-staticgroup {built()['version']}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    status = _command(commands, "status", _status, "one line for each StaticGroup, and what is not as it should be",
                      "Show StaticGroups; below the table, each that is not Ready or has exceptions, and what to do.")  # fmt: skip
    status.add_argument("name", nargs="*", metavar="NAME", help="only these StaticGroups (default: all of the namespace)")
    _everywhere(status)
    _output(status)
    explain = _command(commands, "explain", _explain, "everything that one status tells, in sentences",
                       "Tell what the operator wrote into the status of one StaticGroup. `python -m staticgroup explain` plans "
                       "afresh, with the operator's rights.")  # fmt: skip
    explain.add_argument("name", metavar="NAME", help="name of the StaticGroup")
    _output(explain)
    doctor = _command(commands, "doctor", _doctor, "check the cluster's side of the installation",
                      "Check CustomResourceDefinitions, admission, the operator's Deployment and Lease, rights and statuses, as far "
                      "as you may see them; exit 1 when something is missing.")  # fmt: skip
    _everywhere(doctor)
    _output(doctor)
    # Also before the command, as kubectl itself takes them.
    for each in (parser, *commands.choices.values()):
        _reach(each, is_command=each is not parser)
    return parser


def _command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: object, summary: str, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=text)
    parser.set_defaults(command=run)
    return parser


def _reach(parser: argparse.ArgumentParser, *, is_command: bool) -> None:
    """Add the options by which kubectl finds a cluster and a namespace."""
    default = argparse.SUPPRESS if is_command else ""
    parser.add_argument("-n", "--namespace", default=default, help="namespace (default: that of the context)")
    parser.add_argument("--context", default=default, help="as for kubectl")
    parser.add_argument("--kubeconfig", default=default, help="as for kubectl")
    parser.add_argument("--as", dest="impersonated", metavar="USER", default=default, help="as for kubectl")
    parser.add_argument("--kubectl", default=argparse.SUPPRESS if is_command else "kubectl", help=argparse.SUPPRESS)


def _everywhere(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="every namespace")


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form (default: text)")


def _flags(options: argparse.Namespace) -> list[str]:
    named = {"context": options.context, "kubeconfig": options.kubeconfig, "as": options.impersonated}
    return [f"--{key}={value}" for key, value in named.items() if value]


def _namespace(options: argparse.Namespace, kube: Kubectl) -> str:
    """Return the namespace that is meant; "" for all."""
    if getattr(options, "all_namespaces", False):
        return ""
    return options.namespace or kube.default_namespace()


def _status(options: argparse.Namespace, kube: Kubectl) -> int:
    namespace = _namespace(options, kube)
    if options.name and not namespace:
        raise Refused("a NAME is of one namespace; leave out -A, or the name")
    bodies = [_one(kube, namespace, name) for name in options.name] or _all(kube, namespace)
    if options.output == "json":
        print(json.dumps({"items": [summary_of(body) for body in bodies]}, indent=2, ensure_ascii=False))
    elif bodies:
        print("\n".join(lines_of(bodies, datetime.now(UTC))))
    else:
        print(f"no StaticGroup in {f'namespace {namespace}' if namespace else 'any namespace'}")
    return 0


def _all(kube: Kubectl, namespace: str) -> list[Json]:
    listed = kube.items(GROUP_PATH, f"{names.STATIC_GROUP_PLURAL}.{names.GROUP}", namespace=namespace)
    if isinstance(listed, KubeProblem):
        raise Refused(_why(listed))
    return listed


def _one(kube: Kubectl, namespace: str, name: str) -> Json:
    path = f"{GROUP_PATH}/namespaces/{quote(namespace)}/{names.STATIC_GROUP_PLURAL}/{quote(name)}"
    found = kube.read(path, resource=f"{names.STATIC_GROUP_PLURAL}.{names.GROUP}", namespace=namespace)
    if isinstance(found, KubeProblem):
        is_absent = found.kind is KubeProblemKind.NOT_FOUND and f'"{name}"' in found.message
        raise Refused(f"there is no StaticGroup {namespace}/{name}" if is_absent else _why(found))
    return found


def _why(problem: KubeProblem) -> str:
    if problem.kind is KubeProblemKind.NOT_FOUND:
        return "this cluster serves no StaticGroups; see: kubectl staticgroup doctor"
    return plain(problem)


def _explain(options: argparse.Namespace, kube: Kubectl) -> int:
    body = _one(kube, _namespace(options, kube), options.name)
    if options.output == "json":
        print(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        print("\n".join(account_of(body, datetime.now(UTC))))
    return 0


def _doctor(options: argparse.Namespace, kube: Kubectl) -> int:
    facts = built()
    found = []
    for finding in checkup.examine(kube, _namespace(options, kube), facts["schemas"], facts["version"], datetime.now(UTC)):
        found.append(finding)
        if options.output == "text":
            print(finding, flush=True)
    fatal = sum(f.is_fatal and not f.is_good for f in found)
    rest = checkup.only_the_operator_knows(kube)
    if options.output == "json":
        rows = [asdict(f) | {"mark": f.mark, "remedy": "" if f.is_good else f.remedy} for f in found]
        print(json.dumps({"findings": rows, "problems": fatal, "notChecked": rest}, indent=2, ensure_ascii=False))
    else:
        print(f"{rest}\n{f'{fatal} problems' if fatal else 'no problem seen'}")
    return 1 if fatal else 0
