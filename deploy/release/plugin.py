"""The kubectl plugin as one file, and as krew wants it.

The one idea: what the plugin imports is found by reading it, and anything beyond the standard library and the product's own
files ends the build; so the file runs wherever Python 3.11 does.
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from . import archives
from .facts import REPOSITORY, Facts

NAME: Final = "kubectl-staticgroup"
ROOT: Final = "staticgroup.cli.command_line"
LEFT_OUT: Final = "staticgroup.cli.operator"
"""The commands that need the operator's libraries; the command line says where they run."""
CRDS: Final = sorted((REPOSITORY / "crds").glob("*s.yaml"))
OPERATOR: Final = REPOSITORY / "operator"
_MAIN: Final = """\
import sys
if sys.version_info < (3, 11):
    sys.exit("kubectl staticgroup needs Python 3.11 or newer; python3 here is %d.%d" % sys.version_info[:2])
from staticgroup.cli.command_line import main
sys.exit(main())
"""


def _path(module: str) -> Path | None:
    """Return the file of one of our modules; None for what is none."""
    base = OPERATOR.joinpath(*module.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def _imports(module: str, path: Path) -> Iterator[str]:
    """Yield what a module imports, in functions too, by full name."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            yield from (name if _path(name) else base for name in inner)


def carried() -> dict[str, Path]:
    """Return the modules that the plugin carries.

    Raises
    ------
    RuntimeError
        When one of them needs a library.
    """
    found: dict[str, Path] = {}
    todo = [ROOT]
    while todo:
        module = todo.pop()
        path = _path(module)
        if module in found or module == LEFT_OUT or module.startswith(f"{LEFT_OUT}."):
            continue
        if path is None:
            if module.partition(".")[0] not in sys.stdlib_module_names:
                raise RuntimeError(f"the plugin would need {module}, which is not in the standard library")
            continue
        found[module] = path
        parts = module.split(".")
        todo += [".".join(parts[:i]) for i in range(1, len(parts))]
        todo += _imports(module, path)
    return found


def status_schemas() -> dict[str, Any]:
    """Return the schema of each kind's status, as the committed CRDs have it; {} for kinds without one."""
    found: dict[str, Any] = {}
    for path in CRDS:
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        if "status" in schema:
            found[crd["spec"]["names"]["kind"]] = _without_texts(schema["status"])
    return found


def _without_texts(node: Any) -> Any:
    """Leave out what nobody compares."""
    if isinstance(node, dict):
        return {k: _without_texts(v) for k, v in node.items() if not (k == "description" and isinstance(v, str))}
    return [_without_texts(each) for each in node] if isinstance(node, list) else node


def plugin(facts: Facts) -> bytes:
    """Return the plugin as one file."""
    modules = {str(path.relative_to(OPERATOR)): path.read_bytes() for path in carried().values()}
    modules["staticgroup/cli/schemas.json"] = json.dumps(status_schemas(), sort_keys=True).encode()
    modules["staticgroup/cli/crds.yaml"] = "---\n".join(path.read_text(encoding="utf-8") for path in CRDS).encode()
    modules["__main__.py"] = _MAIN.encode()
    return archives.program(modules, facts.at_s)


def archive_name(facts: Facts) -> str:
    """Return the name of the archive that krew fetches."""
    return f"{NAME}-{facts.version}.tar.gz"


def archive(facts: Facts, program: bytes) -> bytes:
    """Return the archive that krew fetches: the plugin and, as krew asks of every plugin, its licence."""
    licence = (REPOSITORY / "LICENSE").read_bytes()
    return archives.tar_gz({NAME: (program, 0o755), "LICENSE": (licence, 0o644)}, facts.at_s)


def krew_manifest(facts: Facts, sha256: str) -> str:
    """Return the manifest by which `kubectl krew install --manifest` installs the plugin.

    Parameters
    ----------
    sha256: of the archive.

    Notes
    -----
    Fields as in krew's developer guide (site/content/docs/developer-guide/plugin-manifest.md). Windows runs no file by its
    first line, so it is left out.
    """
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": f"{facts.base_url}/{archive_name(facts)}",
        "sha256": sha256,
        "bin": NAME,
        "files": [{"from": NAME, "to": "."}, {"from": "LICENSE", "to": "."}],
    }
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "staticgroup"},
        "spec": {
            "version": facts.tag,
            "homepage": facts.base_url,
            "shortDescription": "See Kafka static membership",
            "description": "Shows the StaticGroups of a cluster and what is not as it should be, checks the cluster's side of the\n"
            "installation, and prints the CustomResourceDefinitions, with your own rights.\n",
            "caveats": "Needs Python 3.11 or newer as python3 on the PATH.\n",
            "platforms": [platform],
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False, width=110)
