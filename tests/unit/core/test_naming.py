"""Which ids a StaticGroup counts as its own, for every spec that the API server accepts."""

from __future__ import annotations

from dataclasses import replace

from staticgroup.api.identifiers import IdScheme
from staticgroup.core.ids.naming import Naming

from .builders import known_pod


def test_pod_whose_id_the_broker_would_refuse_gets_no_further_ids() -> None:
    """Topic.validate allows 249 characters; a template may repeat a long pod name beyond them."""
    scheme = IdScheme(
        template="{podName}-" * 5 + "3fa9c1d2", workload_name="w" * 52, env_suffixes=("",), suffixes=("-1", "-2")
    )
    naming = Naming(schemes=(scheme,), scope="3fa9c1d2")
    pod = replace(known_pod(), pod_name=f"{'w' * 52}-0")
    assert naming.expand(pod) == pod


def test_copied_id_is_found_under_the_id_that_the_pod_carries_before_the_client_suffixes_it() -> None:
    """A pod of another name that copied the annotation holds web-2.3fa9c1d2-1 too, though it carries only the base."""
    scheme = IdScheme(template="{podName}.3fa9c1d2", workload_name="web", env_suffixes=("",), suffixes=("-1", "-2"))
    naming = Naming(schemes=(scheme,), scope="3fa9c1d2")
    assert naming.carried_as("web-2.3fa9c1d2-1") == {"web-2.3fa9c1d2", "web-2.3fa9c1d2-1"}
    assert naming.carried_as("foreign") == {"foreign"}


def test_pod_that_shows_no_id_has_that_of_the_template_where_the_application_brings_it() -> None:
    """As one whose application takes its host name; what a pod shows counts for more."""
    scheme = IdScheme(template="{podName}", workload_name="web", env_suffixes=("",), suffixes=("", "-0"))
    brought, injected = Naming(schemes=(scheme,), is_brought=True), Naming(schemes=(scheme,))
    bare = known_pod(instance_ids=frozenset())
    assert brought.expand(bare).instance_ids == {"web-2", "web-2-0"}
    assert injected.expand(bare).instance_ids == frozenset()
    other = known_pod(instance_ids=frozenset({"orders-7"}))
    assert brought.expand(other).instance_ids == {"orders-7"}
    assert brought.expand(replace(bare, pod_name="other-2")).instance_ids == frozenset()


def test_an_id_that_no_pod_of_ours_can_have_is_foreign_however_it_reads() -> None:
    """KIP-848 groups take ids of any length (throwIfConsumerGroupHeartbeatRequestIsInvalid); no status could hold one."""
    scheme = IdScheme(template="{podName}.3fa9c1d2", workload_name="web")
    naming = Naming(schemes=(scheme,), scope="3fa9c1d2")
    longest = "web-2.3fa9c1d2".ljust(249, "x")
    assert naming.is_own(longest)
    assert not naming.is_own(f"{longest}x")


def test_what_contains_the_scope_is_ours_also_where_no_template_makes_it() -> None:
    """As an id of a template to come, which another replica may have issued a moment ago."""
    scheme = IdScheme(template="{podName}.3fa9c1d2", workload_name="web")
    naming = Naming(schemes=(scheme,), scope="3fa9c1d2")
    assert naming.is_own("b-3fa9c1d2-2")
    assert not naming.is_own("b-2")
