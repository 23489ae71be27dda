"""Windows read every place of a stream once, in both directions, the same ones whoever asks and whenever."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.pretraining.windows import BEGIN_TYPE, END_TYPE, LogUniformSampler, Window, WindowPlan, Windows
from reference.strategies import patiently


def all_different(places: int) -> tuple[np.ndarray, np.ndarray]:
    """A stream in which the word at place n has the number n + 2 and the class n + 2, so that every place is known."""
    return np.arange(2, places + 2, dtype=np.uint32), np.arange(places + 2, dtype=np.uint32)


def words_read(window: Window) -> np.ndarray:
    return window.types[window.inputs]


def windows_of(places: int, *, rows: int, steps: int, **options: object) -> Windows:
    seed = options.pop("seed", 1)
    return Windows(*all_different(places), WindowPlan(batch_size=rows, length=steps, seed=seed), **options)


@st.composite
def streams(draw: st.DrawFn) -> dict[str, int]:
    """Long enough for a window, and then some."""
    rows, steps = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    places = rows * steps + 1 + draw(st.integers(0, 200))
    return {"rows": rows, "steps": steps, "places": places, "seed": draw(st.integers(0, 9))}


@patiently
@given(streams(), st.integers(0, 3))
def test_every_pair_of_neighbours_is_read_once_in_an_epoch_but_for_less_than_a_window(stream, epoch):
    windows = windows_of(**stream)
    forward, backward = [], []
    for number in range(epoch * windows.per_epoch, (epoch + 1) * windows.per_epoch):
        read, targets = words_read(windows[number]), windows[number].targets
        forward += zip(read[0].ravel().tolist(), targets[0].ravel().tolist(), strict=True)
        backward += zip(read[1].ravel().tolist(), targets[1].ravel().tolist(), strict=True)
    assert all(after == before + 1 for before, after in forward)
    assert all(after == before - 1 for before, after in backward)
    assert len(set(forward)) == len(forward)
    # Both directions go over the same stretch of text.
    assert {(after, before) for before, after in forward} == set(backward)
    assert len(backward) == len(forward)
    left_over = stream["places"] - 1 - len(forward)
    assert 0 <= left_over < windows.plan.tokens


@patiently
@given(streams())
def test_a_row_goes_on_where_its_window_before_ended(stream):
    windows = windows_of(**stream)
    for number in range(windows.per_epoch - 1):
        last, following = windows[number], windows[number + 1]
        assert (last.targets[:, -1] == words_read(following)[:, 0]).all()
    whole = np.concatenate([words_read(windows[number]) for number in range(windows.per_epoch)], axis=1)
    assert (np.diff(whole[0], axis=0) == 1).all()
    assert (np.diff(whole[1], axis=0) == -1).all()


def test_what_is_left_out_lies_elsewhere_in_other_epochs():
    windows = windows_of(1 + 2 * 19, rows=2, steps=10)
    firsts = {int(words_read(windows[number])[0, 0, 0]) for number in range(30)}
    assert len(firsts) > 5


def test_boundaries_are_begin_and_end_as_the_reading_goes():
    # <S> five six </S><S> seven </S>
    stream = np.array([0, 5, 6, 0, 7, 0], dtype=np.uint32)
    classes = np.arange(100, 108, dtype=np.uint32)
    window = Windows(stream, classes, WindowPlan(batch_size=1, length=5))[0]
    assert words_read(window)[:, :, 0].tolist() == [[BEGIN_TYPE, 5, 6, BEGIN_TYPE, 7], [END_TYPE, 7, END_TYPE, 6, 5]]
    assert window.targets[:, :, 0].tolist() == [[105, 106, 101, 107, 101], [107, 100, 106, 105, 100]]


def test_distinct_words_are_named_once_and_in_rising_order():
    stream = np.array([0, 4, 4, 3, 0, 4, 0], dtype=np.uint32)
    window = Windows(
        stream, np.arange(6, dtype=np.uint32), WindowPlan(batch_size=2, length=3, directions=("forward",))
    )[0]
    assert window.types.tolist() == [0, 3, 4]
    assert window.inputs.shape == window.targets.shape == (1, 3, 2)
    assert window.inputs[0].T.tolist() == [[0, 2, 2], [1, 0, 2]]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction_alone_reads_what_it_reads_beside_the_other(direction):
    stream, classes = all_different(60)
    both = Windows(stream, classes, WindowPlan(batch_size=3, length=4))[1]
    alone = Windows(stream, classes, WindowPlan(batch_size=3, length=4, directions=(direction,)))[1]
    place = 0 if direction == "forward" else 1
    assert (words_read(alone)[0] == words_read(both)[place]).all()
    assert (alone.targets[0] == both.targets[place]).all()


@pytest.mark.parametrize("processes", [2, 3, 6])
def test_processes_share_the_rows_without_overlap_and_draw_the_same_negatives(processes):
    sampler = LogUniformSampler(classes=100, num_sampled=5)
    whole = windows_of(150, rows=6, steps=4, sampler=sampler)
    shares = [
        windows_of(150, rows=6, steps=4, sampler=sampler, rank=rank, processes=processes) for rank in range(processes)
    ]
    for number in (0, whole.per_epoch + 1):
        parts = [share[number] for share in shares]
        assert (np.concatenate([words_read(part) for part in parts], axis=2) == words_read(whole[number])).all()
        assert (np.concatenate([part.targets for part in parts], axis=2) == whole[number].targets).all()
        for part in parts:
            assert (part.negatives.classes == whole[number].negatives.classes).all()
            assert part.negatives.tries == whole[number].negatives.tries


def same(one: Window, other: Window) -> bool:
    pairs = ((one.types, other.types), (one.inputs, other.inputs), (one.targets, other.targets))
    negatives = (one.negatives.classes, other.negatives.classes)
    return all(np.array_equal(a, b) for a, b in (*pairs, negatives)) and one.number == other.number


def test_a_window_follows_from_its_number_and_the_seed():
    sampler = LogUniformSampler(classes=100, num_sampled=5)
    first, second, other = (windows_of(150, rows=2, steps=9, sampler=sampler, seed=seed) for seed in (3, 3, 4))
    numbers = [0, 5, 30, 5]
    assert all(same(first[number], second[number]) for number in numbers)
    assert not any(same(first[number], other[number]) for number in numbers)
    assert not (first[0].negatives.classes == first[1].negatives.classes).all()


def test_windows_made_ahead_are_the_same_and_in_order():
    windows = windows_of(400, rows=2, steps=5, sampler=LogUniformSampler(classes=100, num_sampled=5))
    ahead = list(windows.prefetch(3, 40))
    assert [window.number for window in ahead] == list(range(3, 40))
    assert all(same(window, windows[window.number]) for window in ahead)


def test_who_stops_early_leaves_no_thread_behind():
    before = threading.active_count()
    ahead = windows_of(400, rows=2, steps=5).prefetch(0, 10_000)
    assert next(ahead).number == 0
    assert threading.active_count() > before
    ahead.close()
    assert threading.active_count() == before


def test_a_corpus_that_fills_no_window_is_refused_with_a_remedy():
    assert windows_of(13, rows=3, steps=4).per_epoch == 1
    with pytest.raises(
        InputError, match=r"12 tokens, too few for 3 rows of 4 steps; reduce training\.batch_size or training\.window"
    ):
        windows_of(12, rows=3, steps=4)


def test_rows_that_cannot_be_shared_evenly_are_refused():
    with pytest.raises(InputError, match="4 rows cannot be divided evenly among 3 processes"):
        windows_of(100, rows=4, steps=2, processes=3)
