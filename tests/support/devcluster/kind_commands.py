"""The command line of `kind`, answered by the local cluster, so that tools made for kind work unchanged.

The one idea: the same verbs, options and outputs as kind's where both can do a thing (pytest-kind's own fixture runs on
it), and a few verbs of our own for what kind cannot do: freezing, rebooting, adding and removing nodes.
Where a container engine runs, the real kind is executed instead. `CLUSTER=kind|local` decides otherwise.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .apiserver_client import write_private_json
from .cluster import DEFAULT_NODES, Cluster, NodeWish, healthy_clusters, user_kubeconfig
from .images import build_image
from .layout import CONTROL_PLANE, known_states, load_state
from .leftovers import leftovers
from .process import run
from .programs import COMPONENTS, helm_program, kind_program, programs_directory
from .progress import say

# First words that only the local cluster understands.
_OWN_VERBS = ("status", "node", "leftovers", "path")


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    if chosen_cluster() == "kind" and (not arguments or arguments[0] not in _OWN_VERBS):
        program = kind_program()
        os.execv(program, [str(program), *arguments])
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int | None] = options.command
    try:
        return command(options) or 0
    except (RuntimeError, LookupError, ValueError, TimeoutError, OSError) as error:
        say(f"ERROR: {error}")
        return 1


def chosen_cluster() -> str:
    """Return `kind` or `local`: what `CLUSTER` says, else `kind` when a container engine answers."""
    wish = os.environ.get("CLUSTER", "")
    if wish in ("kind", "local"):
        return wish
    if wish:
        sys.exit(f"CLUSTER={wish}: must be 'kind' or 'local'")
    return "kind" if any(_answers(engine) for engine in ("docker", "podman")) else "local"


def _answers(engine: str) -> bool:
    try:
        done = subprocess.run([engine, "info"], capture_output=True, timeout=20, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kind", description="kind's verbs on a cluster of plain processes")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    create = _subject(verbs.add_parser("create"), "cluster", _create_cluster, with_name=True)
    create.add_argument("--kubeconfig", type=Path)
    create.add_argument("--image", help="accepted and not used: the version is that of go.mod")
    create.add_argument("--config", type=Path)
    create.add_argument("--wait", help="accepted: the cluster is always ready when this returns")
    create.add_argument("--retain", action="store_true", help="keep what was started when creation fails")
    delete = _subject(verbs.add_parser("delete"), "cluster", _delete_cluster, with_name=True)
    delete.add_argument("--kubeconfig", type=Path)
    get = verbs.add_parser("get").add_subparsers(required=True, metavar="WHAT")
    get.add_parser("clusters").set_defaults(command=_get_clusters)
    for what, command in (("kubeconfig", _get_kubeconfig), ("nodes", _get_nodes)):
        _with_name(get.add_parser(what)).set_defaults(command=command)
    load = _subject(verbs.add_parser("load"), "docker-image", _load_images, with_name=True)
    load.add_argument("images", nargs="+", metavar="IMAGE")
    build = _subject(verbs.add_parser("build"), "image", _build_image, with_name=False)
    build.add_argument("--tag", required=True)
    build.add_argument("--file", type=Path, help="default: Dockerfile in the context")
    build.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    build.add_argument("context", type=Path, nargs="?", default=Path())
    verbs.add_parser("status").set_defaults(command=_status)
    _with_name(verbs.add_parser("leftovers")).set_defaults(command=_leftovers)
    path = verbs.add_parser("path")
    path.add_argument("program", choices=[*COMPONENTS, "etcd", "helm"])
    path.set_defaults(command=_print_path)
    _add_node_verbs(verbs.add_parser("node"))
    return parser


def _add_node_verbs(parser: argparse.ArgumentParser) -> None:
    node = parser.add_subparsers(required=True, metavar="WHAT")
    for what in ("freeze", "thaw", "reboot", "poweroff", "poweron", "unplug", "plug", "remove", "add"):
        one = _with_name(node.add_parser(what))
        one.add_argument("node", metavar="NAME", help="full name, or without the cluster's: worker2")
        one.set_defaults(command=_change_node, change=what)


def _subject(
    verb: argparse.ArgumentParser, subject: str, command: Callable[[argparse.Namespace], int | None], *, with_name: bool
) -> argparse.ArgumentParser:
    parser = verb.add_subparsers(required=True, metavar="WHAT").add_parser(subject)
    parser.set_defaults(command=command)
    return _with_name(parser) if with_name else parser


def _with_name(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    default = os.environ.get("KIND_CLUSTER_NAME", "kind")
    parser.add_argument("--name", "-n", default=default, help=f"the cluster (default {default})")
    return parser


def _create_cluster(options: argparse.Namespace) -> None:
    if options.name in healthy_clusters():
        raise RuntimeError(f'node(s) already exist for a cluster with the name "{options.name}"')
    nodes, arguments = (DEFAULT_NODES, ()) if options.config is None else read_configuration(options.config)
    cluster = Cluster(options.name)
    is_new = load_state(options.name) is None
    try:
        cluster.up(nodes, apiserver_arguments=arguments)
    except BaseException:
        if is_new and not options.retain:
            cluster.down()
        raise
    _publish_kubeconfig(cluster, options.kubeconfig or user_kubeconfig())


def _publish_kubeconfig(cluster: Cluster, path: Path) -> None:
    """Write the cluster's context into a kubeconfig, beside what is there, as kind does."""
    context = f"kind-{cluster.name}"
    if not path.exists() or not path.read_text().strip():
        write_private_json(path, cluster.client.kubeconfig(context))
        return
    server = cluster.client
    authority = f"--certificate-authority={server.ca_file}"
    for words in (
        ["set-cluster", context, f"--server={server.url}", "--embed-certs", authority],
        ["set-credentials", context, f"--token={server.token}"],
        ["set-context", context, f"--cluster={context}", f"--user={context}"],
        ["use-context", context],
    ):
        _kubectl_config(cluster, path, words)


def _delete_cluster(options: argparse.Namespace) -> None:
    path = options.kubeconfig or user_kubeconfig()
    context = f"kind-{options.name}"
    cluster = Cluster(options.name)
    if load_state(options.name) is not None and path.exists() and context in path.read_text():
        if _kubectl_config(cluster, path, ["current-context"]).strip() == context:
            _kubectl_config(cluster, path, ["unset", "current-context"])
        for words in (["delete-cluster", context], ["delete-user", context], ["delete-context", context]):
            _kubectl_config(cluster, path, words)
    cluster.down()


def _kubectl_config(cluster: Cluster, path: Path, words: Sequence[str]) -> str:
    program = f"{cluster.state.bin_directory}/kubectl"
    return run([program, "config", f"--kubeconfig={path}", *words], check=False)


def _get_clusters(_options: argparse.Namespace) -> None:
    names = healthy_clusters()
    if names:
        print("\n".join(names))
    else:
        say("No kind clusters found.")


def _get_kubeconfig(options: argparse.Namespace) -> None:
    print(Path(Cluster.load(options.name).state.kubeconfig).read_text(), end="")


def _get_nodes(options: argparse.Namespace) -> None:
    print("\n".join(node.name for node in Cluster.load(options.name).nodes))


def _load_images(options: argparse.Namespace) -> None:
    cluster = Cluster.load(options.name)
    for tag in options.images:
        cluster.load_image(tag)


def _build_image(options: argparse.Namespace) -> None:
    arguments = dict(argument.split("=", 1) for argument in options.build_arg)
    print(build_image(options.tag, options.context, dockerfile=options.file, build_arguments=arguments))


def _status(_options: argparse.Namespace) -> None:
    for state in known_states():
        cluster = Cluster(state.name)
        health = "healthy" if cluster.is_healthy() else "BROKEN (create repairs, delete removes)"
        print(f"{state.name}: {health}, host address {state.host_address}, kubeconfig {state.kubeconfig}")
        for process in cluster.processes:
            where = process.directory.name if process.directory != cluster.directory else "control plane"
            print(f"  {where:20} {process.name:24} {process.pid() or 'not running'}")


def _print_path(options: argparse.Namespace) -> None:
    """Print where a program is; build it first when it is missing."""
    print(helm_program() if options.program == "helm" else programs_directory() / options.program)


def _leftovers(options: argparse.Namespace) -> int:
    found = leftovers(options.name)
    print("\n".join(found))
    return 1 if found else 0


def _change_node(options: argparse.Namespace) -> None:
    cluster = Cluster.load(options.name)
    if options.change == "add":
        cluster.add_node(options.node)
    elif options.change == "remove":
        cluster.remove_node(options.node)
    else:
        node = cluster.node(options.node)
        changes = {
            "freeze": node.freeze, "thaw": node.thaw, "unplug": node.unplug, "plug": node.plug,
            "reboot": node.reboot, "poweroff": node.power_off, "poweron": node.power_on,
        }  # fmt: skip
        changes[options.change]()


def read_configuration(path: Path) -> tuple[tuple[NodeWish, ...], tuple[str, ...]]:
    """Read kind's configuration file.

    Parameters
    ----------
    path: YAML or JSON of `kind.x-k8s.io/v1alpha4`. `nodes` (role, labels), `featureGates` and `runtimeConfig` are
        honoured; whatever else it has is named in a warning.

    Returns
    -------
    The nodes, and further arguments of the API server.
    """
    content = _parse_yaml(path) or {}
    nodes: list[NodeWish] = []
    for entry in content.get("nodes") or [{"role": CONTROL_PLANE}]:
        role = entry.get("role", CONTROL_PLANE)
        same = sum(1 for node in nodes if node.role.rstrip("0123456789") == role)
        if role == CONTROL_PLANE and same:
            raise ValueError("only one control-plane node is supported")
        nodes.append(NodeWish(role=role if same == 0 else f"{role}{same + 1}", labels=entry.get("labels") or {}))
        _warn(set(entry) - {"role", "labels", "image"}, "nodes[]")
    if not any(node.role == CONTROL_PLANE for node in nodes):
        raise ValueError("a control-plane node is needed")
    nodes.sort(key=lambda node: node.role != CONTROL_PLANE)
    arguments = []
    for key, flag in (("featureGates", "--feature-gates"), ("runtimeConfig", "--runtime-config")):
        settings = ",".join(f"{name}={str(value).lower()}" for name, value in (content.get(key) or {}).items())
        arguments += [f"{flag}={settings}"] if settings else []
    _warn(set(content) - {"kind", "apiVersion", "name", "nodes", "featureGates", "runtimeConfig"}, "configuration")
    return tuple(nodes), tuple(arguments)


def _warn(unknown: set[str], where: str) -> None:
    for key in sorted(unknown):
        say(f"WARNING: {where}: {key} is not supported here and has no effect")


def _parse_yaml(path: Path) -> Any:
    """Parse YAML with this Python's PyYAML, or with that of another Python on the machine."""
    text = path.read_text()
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        import yaml
    except ModuleNotFoundError:
        root = Path(__file__).resolve().parents[3]
        script = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
        for python in (root / ".venv/bin/python", Path("/usr/bin/python3")):
            done = subprocess.run([python, "-c", script], input=text, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return json.loads(done.stdout)
        raise RuntimeError("PyYAML is missing: install python3-yaml, or write the configuration as JSON") from None
    return yaml.safe_load(text)
