"""The same as plain manifests, for who applies files: with and without the CustomResourceDefinitions."""

from typing import Any, Final

import manifest_generator as generator
import yaml

from .facts import REPOSITORY, Facts

OLDEST: Final = "1.29.0"
_NAMESPACE: Final = REPOSITORY / "deploy" / "operator" / "namespace.yaml"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def crds() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions as they are committed."""
    return [yaml.safe_load((REPOSITORY / "crds" / name).read_text(encoding="utf-8")) for name in generator.CRDS]


def installed(facts: Facts, helm: str, *options: str) -> list[dict[str, Any]]:
    """Return what is installed besides them, the namespace first."""
    image = ("--set", f"image.repository={facts.image}", "--set", f"image.tag={facts.version}")
    objects = list(generator.plain(generator.rendered(helm, "--set", "crds.install=false", *image, *options)))
    return [yaml.safe_load(_NAMESPACE.read_text(encoding="utf-8")), *objects]


def files(facts: Facts, helm: str) -> dict[str, bytes]:
    """Return the files by name."""
    whole = installed(facts, helm)
    older = installed(facts, helm, "--kube-version", OLDEST)
    head = f"# StaticGroup {facts.version}, from charts/staticgroup with its default values."
    return {
        "crds.yaml": _text(head, crds()),
        "install.yaml": _text(f"{head} Kubernetes 1.36 and newer.", [*crds(), *whole]),
        "install-without-crds.yaml": _text(f"{head} Kubernetes 1.36 and newer; after crds.yaml.", whole),
        "install-kubernetes-1.29.yaml": _text(f"{head} Kubernetes 1.29 to 1.35: with the webhook in place of admission policies.", [*crds(), *older]),
    }


def _text(head: str, objects: list[dict[str, Any]]) -> bytes:
    dumped = (yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True) for each in objects)
    return (head + "\n" + "---\n".join(dumped)).encode()
