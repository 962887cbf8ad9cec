"""Without a cluster each command says so in one line, and does not show how it found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticgroup.cli.command_line import EXIT_USAGE, main

COMMANDS = (["plan", "orders", "-n", "shop"], ["run"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda parts: parts[0])
def test_command_without_a_cluster_names_what_to_set(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("STATICGROUP_NAMESPACE", "shop")
    assert main(command) == EXIT_USAGE
    printed = capsys.readouterr().err
    assert "there is no cluster to talk to" in printed
    assert "KUBECONFIG" in printed
    assert "Traceback" not in printed
