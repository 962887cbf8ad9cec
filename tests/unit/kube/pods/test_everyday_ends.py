"""Everyday ends, as a 1.36.3 kubelet writes them: pods of which not every container ever ran."""

from typing import Any

import pytest

from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.kube.pods.book import PodBook
from unit.kube.pods.books import make_book, see
from unit.kube.raw_objects import born, ended, pod, running, unknown, waiting, wrote

Statuses = list[dict[str, Any]]


def story(*versions: tuple[Statuses, Statuses], **spec: Statuses) -> list[dict[str, Any]]:
    """Return the versions of a pod from its birth on, with the statuses of its containers and of its init containers.

    The last one is the kubelet's final report, after the pod was deleted.
    """
    made = [born()]
    for number, (statuses, inits) in enumerate(versions, start=1):
        raw = pod(phase="Failed" if number == len(versions) else "Pending", statuses=statuses)
        raw["status"]["initContainerStatuses"] = inits
        made.append(raw)
    made[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    for raw in made:
        raw["spec"] |= spec
    return made


def folded(versions: list[dict[str, Any]], *, listed_at: int | None = None) -> KnownPod:
    """Fold the versions of a story and the deletion of its pod; the operator may begin again and LIST one of them first."""
    book = make_book()
    for number, raw in enumerate(versions):
        if number == listed_at:
            book = make_book()
        see(book, raw, 10 + number, listed=number == listed_at)
    return see(book, versions[-1], 10 + len(versions), deleted=True)


def resumed(**rest: Any) -> PodBook:
    """Return the book of a process whose watch goes on from where that of another one ended."""
    book = make_book(**rest)
    book.is_resumed = True
    return book


APP, SIDE, INIT = [{"name": "app"}], [{"name": "side"}], [{"name": "init"}]
PULLING = waiting(reason="ImagePullBackOff")
INIT_PULLING = waiting("side", "ImagePullBackOff")
NEVER_PULLED = story(([PULLING], []), ([unknown()], []))
INIT_RAN = story(
    ([waiting()], [running("init")]), ([PULLING], [ended("init")]), ([unknown()], [ended("init")]), initContainers=INIT
)
DELETED_DURING_INIT = story(
    ([waiting()], [running("init")]), ([waiting()], [ended("init", reason="Error")]), initContainers=INIT
)
SIDECAR_NEVER_PULLED = story(
    ([running(), waiting("side", "ImagePullBackOff")], []), ([ended(), unknown("side")], []), containers=APP + SIDE
)
SIDECAR_INIT_NEVER_PULLED = story(
    ([waiting()], [INIT_PULLING]), ([waiting()], [unknown("side")]),
    initContainers=[{"name": "side", "restartPolicy": "Always"}],
)


def debugged(*, first: dict[str, Any], last: dict[str, Any]) -> list[dict[str, Any]]:
    """A pod that runs, gets an ephemeral container and ends well."""
    made = story(([running()], []), ([running()], []), ([ended()], []))
    for raw, status in zip(made[2:], (first, last), strict=True):
        raw["spec"]["ephemeralContainers"] = [{"name": "dbg"}]
        raw["status"]["ephemeralContainerStatuses"] = [status]
    return made


WRONG_DEBUG_IMAGE = debugged(first=waiting("dbg", "ErrImagePull"), last=waiting("dbg", "ContainerCreating"))


@pytest.mark.parametrize(
    ("versions", "kind"),
    [
        (NEVER_PULLED, CertificateKind.NEVER_RAN),
        (SIDECAR_INIT_NEVER_PULLED, CertificateKind.NEVER_RAN),
        (INIT_RAN, CertificateKind.ENDED),
        (DELETED_DURING_INIT, CertificateKind.ENDED),
        (SIDECAR_NEVER_PULLED, CertificateKind.ENDED),
        (WRONG_DEBUG_IMAGE, CertificateKind.ENDED),
    ],
    ids=["image never pulled", "sidecar before the app never pulled", "init ran and the app was never pulled",
         "deleted during init", "one of two never pulled", "debug container with a wrong image"],
)
def test_end_of_a_pod_of_which_a_container_never_started_is_certified(
    versions: list[dict[str, Any]], kind: CertificateKind
) -> None:
    seen = folded(versions)
    assert seen.certificate is not None, seen.refusal
    assert (seen.state, seen.certificate.kind) == (PodState.DEAD, kind)


STORIES = {
    "app": NEVER_PULLED, "init ran": INIT_RAN, "init": DELETED_DURING_INIT, "one of two": SIDECAR_NEVER_PULLED,
    "debug": WRONG_DEBUG_IMAGE, "sidecar": SIDECAR_INIT_NEVER_PULLED,
}
each_story = pytest.mark.parametrize("versions", STORIES.values(), ids=STORIES)


@each_story
@pytest.mark.parametrize("listed_at", [1, -2, -1])
def test_container_that_was_not_followed_from_birth_may_have_run(versions: list[dict[str, Any]], listed_at: int) -> None:
    """What was written before the LIST is not known: an end without a container id leaves a suspect."""
    assert folded(versions, listed_at=listed_at % len(versions)).state is PodState.SUSPECT


@each_story
@pytest.mark.parametrize("first", ["LIST", "replay"])
def test_operator_that_goes_on_where_another_one_ended_knows_what_never_ran(
    versions: list[dict[str, Any]], first: str
) -> None:
    """ImagePullBackOff outlives the operator, and its pod is deleted afterwards: the version before its end shows the runs."""
    book = resumed()
    see(book, versions[-2], 20, listed=first == "LIST")
    see(book, versions[-1], 21)
    assert see(book, versions[-1], 22, deleted=True).state is PodState.DEAD


@each_story
def test_end_that_a_resuming_operator_lists_first_is_proven_by_the_replay(versions: list[dict[str, Any]]) -> None:
    """Deleted while no operator ran: the LIST, which shows the end alone, comes before the events."""
    book = resumed()
    see(book, versions[-1], 21, listed=True)
    for number in (-2, -1):
        see(book, versions[number], 22 + number)
    assert see(book, versions[-1], 22, deleted=True).state is PodState.DEAD


@each_story
def test_end_of_which_a_resuming_operator_sees_nothing_but_the_last_report_is_not_proven(versions: list[dict[str, Any]]) -> None:
    """In its last report a kubelet may drop the id of what it lost, so that alone shows no run."""
    book = resumed()
    see(book, versions[-1], 21, listed=True)
    assert see(book, versions[-1], 22, deleted=True).state is PodState.SUSPECT


def test_container_without_an_entry_may_have_run_before_the_operator_resumed() -> None:
    """A kubelet that rejects what it ran writes no entries; those that it writes later know nothing of before."""
    for entries in ([], [waiting("side")]):
        versions = story((entries, []), ([unknown(), unknown("side")], []), containers=APP + SIDE)
        book = resumed()
        see(book, versions[1], 20, listed=True)
        see(book, versions[2], 21)
        assert see(book, versions[2], 22, deleted=True).state is PodState.SUSPECT


def with_a_run(entry: dict[str, Any], **shown: Any) -> dict[str, Any]:
    return {**entry, **shown}


OF_AN_EARLIER_RUN = {"lastState": {"terminated": {"containerID": "containerd://old", "exitCode": 1}}}
WITHOUT_ITS_ID = {"lastState": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}}


@pytest.mark.parametrize("final", [unknown("side"), waiting("side")], ids=["unknown", "waiting"])
@pytest.mark.parametrize(
    "shown",
    [
        {"containerID": "containerd://side"},
        {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        {"state": {"terminated": {"containerID": "containerd://side", "exitCode": 1}}},
        OF_AN_EARLIER_RUN, WITHOUT_ITS_ID, {"restartCount": 1},
    ],
    ids=["id", "running", "ended", "earlier id", "lost", "restarted"],
)
def test_container_that_showed_a_run_in_any_version_is_lost_when_its_end_has_no_id(
    shown: dict[str, Any], final: dict[str, Any]
) -> None:
    """The kubelet takes the id away when it cannot find a running container any more (convertToAPIContainerStatuses)."""
    before = ([running(), with_a_run(waiting("side", "CrashLoopBackOff"), **shown)], [])
    versions = story(before, ([running(), waiting("side")], []), ([ended(), final], []), containers=APP + SIDE)
    assert folded(versions).state is PodState.SUSPECT
    book = resumed()
    for number, raw in enumerate(versions[1:]):
        see(book, raw, 20 + number, listed=not number)
    assert see(book, versions[-1], 30, deleted=True).state is PodState.SUSPECT


@pytest.mark.parametrize("shown", [OF_AN_EARLIER_RUN, WITHOUT_ITS_ID, {"restartCount": 1}], ids=["id", "lost", "count"])
def test_run_that_only_the_last_version_shows_counts(shown: dict[str, Any]) -> None:
    versions = story(([running(), waiting("side")], []), ([ended(), unknown("side", **shown)], []), containers=APP + SIDE)
    assert folded(versions).state is PodState.SUSPECT


def test_init_container_must_have_ended_where_the_app_never_started() -> None:
    """An app that ran came after it; one that did not says nothing of it."""
    lost = unknown("init", containerID="containerd://init")
    for final in ([lost], [running("init")], []):
        versions = story(([waiting()], [running("init")]), ([unknown()], final), initContainers=INIT)
        assert folded(versions).state is PodState.SUSPECT
    ran = story(([running()], [ended("init")]), ([ended()], [lost]), initContainers=INIT)
    assert folded(ran).state is PodState.DEAD


def test_container_without_an_entry_is_alive_also_when_it_never_showed_a_run() -> None:
    """A kubelet that rejects a pod writes Failed without entries, whether the pod ran under the one before or not."""
    for final in ([ended()], []):
        versions = story(([running(), waiting("side")], []), (final, []), containers=APP + SIDE)
        assert folded(versions).state is PodState.SUSPECT
    rejected = story(([], []))
    rejected[-1]["metadata"]["managedFields"] = [wrote("kubelet", "f:phase")]
    assert folded(rejected).state is PodState.SUSPECT


def test_phase_of_another_writer_over_a_container_that_never_started_is_no_end() -> None:
    for manager, fields in (("kube-controller-manager", ("f:phase",)), ("kueue", ("f:phase",))):
        versions = story(([PULLING], []), ([PULLING], []))
        versions[-1]["metadata"]["managedFields"] = [wrote("kubelet", "f:containerStatuses"), wrote(manager, *fields)]
        assert folded(versions).state is PodState.SUSPECT


def test_older_version_that_shows_a_run_is_not_forgotten() -> None:
    book = make_book()
    versions = story(([PULLING], []), ([unknown()], []))
    see(book, versions[0], 1)
    see(book, versions[1], 5)
    see(book, story(([running()], []), ([], []))[1], 3)
    assert see(book, versions[2], 6).state is PodState.LIVE


@pytest.mark.parametrize("is_resumed", [False, True])
def test_pod_that_a_restored_etcd_brings_back_may_have_run_unseen(is_resumed: bool) -> None:
    book = make_book()
    book.is_resumed = is_resumed
    for number, raw in enumerate(NEVER_PULLED):
        seen = see(book, raw, 10 + number)
    assert seen.state is PodState.DEAD
    assert see(book, NEVER_PULLED[-2], 20).state is PodState.LIVE
    see(book, NEVER_PULLED[-1], 21)
    assert see(book, NEVER_PULLED[-1], 22, deleted=True).state is PodState.SUSPECT
