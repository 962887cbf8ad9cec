"""The sample of measured absences: bounded, the same whatever the order, and mostly new."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from staticgroup.core.absences.samples import HALF_LIFE_S, SAMPLES_MAX, Reservoir, Sample, lot_of, samples_from, text_of

DAY_S = 86_400
NOW_S = 1_800_000_000
drawn = st.builds(
    lambda at, lot, shortest, more: Sample(at_s=at, lot=lot, shortest_ms=shortest, longest_ms=shortest + more),
    st.integers(0, 2**33), st.integers(0, 2**32 - 1), st.integers(0, 900_000), st.integers(0, 60_000),
)  # fmt: skip


def filled(samples: list[Sample]) -> Reservoir:
    reservoir = Reservoir()
    for sample in samples:
        reservoir = reservoir.with_sample(sample)
    return reservoir


def at(day: float, number: int, seed: str = "s") -> Sample:
    return Sample(at_s=int(NOW_S + day * DAY_S), lot=lot_of(seed, f"pod-{number}", 0), shortest_ms=1, longest_ms=2)


@settings(deadline=None)
@given(st.lists(drawn, max_size=100, unique_by=lambda s: s.lot), st.randoms(use_true_random=False))
def test_what_is_kept_is_bounded_and_does_not_depend_on_the_order(samples: list[Sample], rng: random.Random) -> None:
    shuffled = rng.sample(samples, len(samples))
    one, other = filled(samples), filled(shuffled)
    assert one == other
    assert (len(one.samples), one.seen) == (min(SAMPLES_MAX, len(samples)), len(samples))


@given(st.lists(drawn, max_size=SAMPLES_MAX, unique_by=lambda s: s.lot))
def test_what_is_written_is_read_again(samples: list[Sample]) -> None:
    kept = filled(samples).samples
    assert samples_from(text_of(kept)) == kept


def test_longest_texts_are_as_long_as_the_schema_allows() -> None:
    widest = [Sample(at_s=2**33 + n, lot=2**32 - 1 - n, shortest_ms=86_399_999, longest_ms=86_400_000) for n in range(SAMPLES_MAX)]
    assert len(text_of(widest)) <= 45 * SAMPLES_MAX


def test_damaged_text_loses_samples_and_nothing_else() -> None:
    good = text_of([at(0, 1)])
    assert samples_from(f"x,{good},9-1@5.0,1-2@x.0,1-2@3,-1-2@3.00000000") == samples_from(good)


def test_copies_and_other_members_of_one_process_count_once_with_the_longest() -> None:
    short = Sample(at_s=NOW_S, lot=7, shortest_ms=20_000, longest_ms=25_000)
    long = Sample(at_s=NOW_S + 2, lot=7, shortest_ms=22_000, longest_ms=27_000)
    assert filled([short, short, long]) == filled([long, short]) == Reservoir(samples=(long,), seen=1)


def test_lots_are_even() -> None:
    """Chi-squared over 16 classes; the lots are those of one seed, so this cannot fail by chance."""
    counts = [0] * 16
    for number in range(4_000):
        counts[lot_of("seed", f"uid-{number}", number % 3) >> 28] += 1
    assert chisquare(counts).pvalue > 0.01


def test_sample_of_one_age_is_even_and_an_older_one_fades_by_the_half_life() -> None:
    """Of two ages that had as many absences, one half-life apart, the older has about a third of the places."""
    kept = [0, 0]
    for trial in range(12):
        samples = [at(0, n, f"seed-{trial}") for n in range(400)]
        samples += [at(-HALF_LIFE_S / DAY_S, n + 400, f"seed-{trial}") for n in range(400)]
        for sample in filled(samples).samples:
            kept[sample.at_s < NOW_S] += 1
    share = kept[1] / sum(kept)
    assert math.isclose(share, 1 / 3, abs_tol=0.05)
