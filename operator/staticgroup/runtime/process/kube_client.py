"""Log in to the API server: as the pod's service account, or by a kubeconfig on a developer's machine."""

from __future__ import annotations

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from ...kube.transport import Transport, connect
from .settings import SettingsError


async def connected() -> Transport:
    """Return a transport to the API server.

    Raises
    ------
    SettingsError: neither a service account nor a kubeconfig is there.
    """
    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        try:
            await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except config.ConfigException as why:
            raise SettingsError(f"there is no cluster to talk to: {why}; set KUBECONFIG, or run it in a pod") from why
    return connect(configuration)
