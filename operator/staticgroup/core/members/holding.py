"""Which pods may hold an id: those that carry it, and those with the name of its seat unless they surely carry another one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...api.identifiers import may_become
from ..evidence.chain import KnownPod
from ..ids.naming import Naming
from .suspects import Suspect


@dataclass(frozen=True)
class HeldSeat:
    """One id of a StaticGroup; its pods may be of any namespace where they carry it.

    Parameters
    ----------
    namespace: of the StaticGroup.
    """

    instance_id: str
    naming: Naming
    namespace: str

    @cached_property
    def carried_as(self) -> frozenset[str]:
        """Every id that a pod may carry whose process holds this one: clients append to what they are given."""
        return self.naming.carried_as(self.instance_id)

    @cached_property
    def pod_names(self) -> tuple[str, ...]:
        """Names of the pods that the id is made for."""
        return self.naming.pod_names_of(self.instance_id)

    def may_be_held_by(self, pod: KnownPod | Suspect) -> bool:
        """True unless it is known that no process of a pod can hold the id.

        Notes
        -----
        A pod of the name that was only seen with other ids may have this one all the same, for annotations can be edited and are
        read again when a container starts; not where it has an id of ours that is fixed. Clients may append more than the spec expects.
        """
        if not self.carried_as.isdisjoint(pod.instance_ids):
            return True
        if pod.namespace != self.namespace or pod.pod_name not in self.pod_names:
            return False
        is_fixed = isinstance(pod, KnownPod) and pod.ids_are_fixed and any(self.naming.is_own(i) for i in pod.instance_ids)
        return not is_fixed or any(may_become(i, self.instance_id) for i in pod.instance_ids)
