"""Every move: of controllers, kubelets and people, and of operators that ask the rule.

A watch that lags is not modelled, and need not be: what is decided by a watch that is behind is the same as what was
decided when it was not, with the request under way since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from staticgroup.core.slots.hand_out import SlotPod, passes_on

from .state import (
    ENDED,
    FOLLOWED,
    GONE,
    LISTED_END,
    LISTED_UNPROVEN,
    MISSED,
    RUNS,
    UNBORN,
    UNKNOWN,
    WAITS,
    WATCHED_END,
    Known,
    Patch,
    Pod,
    Scenario,
    State,
)  # fmt: skip

Moves = Iterator[tuple[str, State]]
Rule = Callable[[str, str, Sequence[SlotPod]], bool]


def moves(s: State, c: Scenario, rule: Rule = passes_on) -> Moves:
    """Yield every move of one state, with what it is called."""
    for i, pod in enumerate(s.pods):
        yield from _of_pod(s, c, i, pod)
    for patch in s.patches:
        yield from _of_patch(s, c, patch)
    for operator in range(len(s.known)):
        yield from _of_watch(s, c, operator)
        if len(s.patches) < c.patches and not s.is_blind[operator]:
            yield from _of_operator(s, operator, rule)


def has_two_of_one(s: State) -> bool:
    """Return True when two living processes have one slot."""
    slots = [pod.slot for pod in s.pods if pod.is_alive and pod.slot]
    return len(slots) != len(set(slots))


def _of_pod(s: State, c: Scenario, i: int, pod: Pod) -> Moves:
    """Yield what controllers, kubelets and people do to one pod; every watch that is whole is shown it."""
    if pod.phase == UNBORN and (i == 0 or s.pods[i - 1].phase != UNBORN):
        yield f"pod {i} is made", _shown(_with(s, c, i, Pod(WAITS)), i, FOLLOWED)
    if pod.phase == WAITS and pod.note > 0:
        yield f"pod {i} starts with slot {pod.note}", _with(s, c, i, Pod(RUNS, pod.note, pod.note, True))
        if s.left.force:
            started = _with(s, c, i, Pod(GONE, pod.note, pod.note, True))
            yield f"pod {i} is deleted by FORCE as it starts with slot {pod.note}", _spent(started, "force")
    if pod.phase == WAITS and s.left.silence:
        silent = _with(s, c, i, Pod(RUNS, pod.note, 0, True))
        yield f"pod {i} waited in vain, and starts without a slot", _spent(silent, "silence")
    if pod.phase == RUNS and pod.note > 0 and not pod.slot:
        again = _with(s, c, i, pod._replace(slot=pod.note))
        yield f"the sandbox of pod {i} is made anew, so it starts with slot {pod.note}", again
    if pod.phase in (WAITS, RUNS):
        ended = _with(s, c, i, Pod(ENDED, pod.note))
        yield f"pod {i} ends, and its kubelet says so", _shown(ended, i, WATCHED_END)
        if s.left.force:
            yield f"pod {i} is deleted by FORCE", _spent(_with(s, c, i, pod._replace(phase=GONE)), "force")
    if pod.phase == ENDED:
        yield f"the object of pod {i} goes", _with(s, c, i, pod._replace(phase=GONE))
    if pod.phase == GONE and pod.is_alive:
        yield f"the orphan of pod {i} is killed", _with(s, c, i, pod._replace(is_alive=False))


def _of_patch(s: State, c: Scenario, patch: Patch) -> Moves:
    """Yield the two ends of a request."""
    left = s._replace(patches=tuple(p for p in s.patches if p is not patch))
    pod = s.pods[patch.pod]
    says = f"pod {patch.pod}: {_said(patch.note)}"
    yield f"{says} (lost)", left
    if pod.exists and (c.is_versioned or pod.note <= 0):
        yield says, _with(left, c, patch.pod, pod._replace(note=patch.note))


def _of_watch(s: State, c: Scenario, operator: int) -> Moves:
    """Yield what may become of one operator's watch."""
    row = s.known[operator]
    if s.is_blind[operator]:
        listed = tuple(_listed(pod, one) for pod, one in zip(s.pods, row, strict=True))
        yield f"operator {operator}: LIST", _seen(s, operator, listed, is_blind=False)
        for i, one in enumerate(row):
            if s.left.late and one.how != LISTED_END and listed[i].how == LISTED_END:
                later = (*listed[:i], Known(LISTED_UNPROVEN), *listed[i + 1 :])
                says = f"operator {operator}: LIST, in which the end of pod {i} is not proven yet"
                yield says, _spent(_seen(s, operator, later, is_blind=False), "late")
        return
    for i, one in enumerate(row):
        if one.how == LISTED_UNPROVEN:
            proven = Known(LISTED_END if c.are_late_ends_told_apart else WATCHED_END)
            after = _seen(s, operator, (*row[:i], proven, *row[i + 1 :]), is_blind=False)
            yield f"operator {operator}: the end of pod {i} is proven", after
    if s.left.gap:
        before = tuple(_before_gap(pod, one) for pod, one in zip(s.pods, row, strict=True))
        yield f"operator {operator}: its watch breaks", _spent(_seen(s, operator, before, is_blind=True), "gap")
    if s.left.crash:
        nothing = (Known(),) * len(s.pods)
        yield f"operator {operator}: begins anew", _spent(_seen(s, operator, nothing, is_blind=True), "crash")


def _before_gap(pod: Pod, one: Known) -> Known:
    """Return what is kept of a pod when the watch breaks; no end that was watched counts as such any more."""
    if one.how in (FOLLOWED, LISTED_UNPROVEN):
        return Known(FOLLOWED if pod.exists else MISSED, pod.note)
    return Known(LISTED_END) if one.how == WATCHED_END else one


def _listed(pod: Pod, one: Known) -> Known:
    """Return what a LIST adds."""
    if one.how == LISTED_END or pod.phase == ENDED:
        return Known(LISTED_END)
    if pod.exists:
        return Known(FOLLOWED)
    return Known(MISSED, one.note) if one.how == FOLLOWED else one


def _of_operator(s: State, operator: int, rule: Rule) -> Moves:
    """Yield what one operator may write: more than `hand_out` ever chooses, also another claim in place of one."""
    pods = _as_known(s, operator)
    slots = sorted({int(each.given) for each in pods if each.given})
    for i, pod in enumerate(s.pods):
        if pod.phase != WAITS or pod.note > 0 or s.known[operator][i].how != FOLLOWED:
            continue
        who = f"operator {operator} decides for pod {i}: "
        for slot in (each for each in slots if pod.note != -each):
            yield f"{who}{_said(-slot)}", _under_way(s, Patch(i, -slot))
        for slot in slots:
            if rule(str(slot), str(i), pods):
                yield f"{who}{_said(slot)}", _under_way(s, Patch(i, slot))
        yield f"{who}{_said(i + 1)}, one of its own", _under_way(s, Patch(i, i + 1))


def _as_known(s: State, operator: int) -> list[SlotPod]:
    """Return the pods as one operator knows them."""
    found = []
    for i, (pod, known) in enumerate(zip(s.pods, s.known[operator], strict=True)):
        if known.how == UNKNOWN:
            continue
        note = known.note if known.how == MISSED else pod.note
        found.append(
            SlotPod(
                uid=str(i), given=str(note) if note > 0 else "", claimed=str(-note) if note < 0 else "",
                is_waiting=pod.phase == WAITS, has_ended=known.how in (LISTED_END, WATCHED_END),
                is_end_watched=known.how == WATCHED_END,
                is_lost=known.how == MISSED or (known.how in (FOLLOWED, LISTED_UNPROVEN) and pod.phase == GONE),
            )
        )  # fmt: skip
    return found


def _seen(s: State, operator: int, row: tuple[Known, ...], *, is_blind: bool) -> State:
    return s._replace(
        known=(*s.known[:operator], row, *s.known[operator + 1 :]),
        is_blind=(*s.is_blind[:operator], is_blind, *s.is_blind[operator + 1 :]),
    )


def _shown(s: State, i: int, how: str) -> State:
    """Let the watches that are whole bring an event of a pod."""
    rows = (
        row if is_blind else tuple(Known(how) if at == i else one for at, one in enumerate(row))
        for row, is_blind in zip(s.known, s.is_blind, strict=True)
    )
    return s._replace(known=tuple(rows))


def _with(s: State, c: Scenario, i: int, pod: Pod) -> State:
    """Change a pod, which makes every request refused that was made for the version before."""
    patches = tuple(p for p in s.patches if p.pod != i) if c.is_versioned else s.patches
    return s._replace(pods=(*s.pods[:i], pod, *s.pods[i + 1 :]), patches=patches)


def _under_way(s: State, patch: Patch) -> State:
    return s._replace(patches=(*s.patches, patch))


def _spent(s: State, fault: str) -> State:
    return s._replace(left=s.left._replace(**{fault: getattr(s.left, fault) - 1}))


def _said(note: int) -> str:
    return f"slot {note} is yours" if note > 0 else f"you wait for slot {-note}"
