"""The log-probability of every word, in the order of the sentence."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmore import load
from elmore.config import Direction
from elmore.errors import InputError
from elmore.model import Model
from elmore.scoring import Predictor, perplexity, surprisal
from elmore.scoring.surprisal import write_table
from one_way import DIRECTIONS, one_way

TEXT = [["the", "cat", "sat", "on", "a", "rug", "."], [], ["bow"], ['"', "the", '"']]


def test_words_keep_their_places_in_both_directions(toy: Model) -> None:
    for scores, (words, found) in zip(surprisal(toy, TEXT), Predictor(toy).from_fixed_state(TEXT), strict=True):
        assert scores.words == words
        assert scores.backward is not None
        assert scores.both is not None
        assert len(scores.forward) == len(scores.backward) == len(scores.both) == len(words)
        for place in range(len(words)):
            # Backwards, the last word is the first that is predicted.
            assert scores.forward[place] == found[0, place]
            assert scores.backward[place] == found[1, len(words) - 1 - place]
            assert scores.both[place] == pytest.approx((scores.forward[place] + scores.backward[place]) / 2)


def test_a_word_is_judged_by_its_left_or_by_its_right(toy: Model) -> None:
    first, other_end, other_start = surprisal(
        toy, [["the", "cat", "sat"], ["the", "cat", "mat"], ["bow", "cat", "sat"]]
    )
    assert first.backward is not None
    assert other_end.backward is not None
    assert other_start.backward is not None
    np.testing.assert_allclose(first.forward[:2], other_end.forward[:2], atol=1e-5)
    np.testing.assert_allclose(first.backward[1:], other_start.backward[1:], atol=1e-5)
    assert abs(first.forward[1] - other_start.forward[1]) > 1e-3
    assert abs(first.backward[1] - other_end.backward[1]) > 1e-3


def test_words_outside_the_vocabulary_are_marked(toy: Model) -> None:
    assert next(surprisal(toy, TEXT)).in_vocabulary == [True, True, True, True, True, False, True]


def test_carried_on_a_sentence_remembers_those_before_it(toy: Model) -> None:
    twice = [["the", "cat"], ["the", "cat"]]
    fixed, carried = (list(surprisal(toy, twice, state=state)) for state in ("fixed", "carry"))
    np.testing.assert_allclose(fixed[0].forward, fixed[1].forward, atol=1e-6)
    np.testing.assert_allclose(fixed[0].forward, carried[0].forward, atol=1e-5)
    assert np.abs(carried[1].forward - carried[0].forward).max() > 1e-3
    last = perplexity(toy, twice, rows=1, passage=1, first_words=2)
    assert -np.log(last.forward) == pytest.approx(np.mean([scores.forward for scores in carried]), rel=1e-5)


def test_a_model_that_reads_one_way_has_only_forward(fixtures: Path, give_softmax: Callable[..., Model]) -> None:
    model = load(fixtures / "variants" / "unidirectional_one_layer_words")
    [scores] = surprisal(give_softmax(model, model.vocabulary), [["the", "of"]])
    assert scores.forward.shape == (2,)
    assert (scores.backward, scores.both) == (None, None)
    file = io.StringIO()
    write_table([scores], file)
    header, first, _ = csv.reader(io.StringIO(file.getvalue()), dialect="excel-tab")
    assert first == ["0", "0", "the", "1", f"{scores.forward[0]:.6f}", "", ""]
    assert len(header) == len(first)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("state", ["fixed", "carry"])
def test_a_direction_alone_says_what_it_says_beside_the_other(toy: Model, direction: Direction, state) -> None:
    both, alone = (list(surprisal(model, TEXT, state=state)) for model in (toy, one_way(toy, direction)))
    for expected, found in zip(both, alone, strict=True):
        assert (found.words, found.in_vocabulary) == (expected.words, expected.in_vocabulary)
        np.testing.assert_allclose(getattr(found, direction), getattr(expected, direction), rtol=0, atol=1e-5)
        assert found.both is None
    file = io.StringIO()
    write_table(alone, file)
    for row in csv.DictReader(io.StringIO(file.getvalue()), dialect="excel-tab"):
        assert [name for name in ("forward", "backward", "both") if row[name]] == [direction]


def test_the_table_reads_back(toy: Model) -> None:
    file = io.StringIO()
    assert write_table(surprisal(toy, TEXT), file) == 11
    rows = list(csv.DictReader(io.StringIO(file.getvalue()), dialect="excel-tab"))
    assert list(rows[0]) == ["sentence", "position", "word", "in_vocabulary", "forward", "backward", "both"]
    expected = [(number, place, word) for number, words in enumerate(TEXT) for place, word in enumerate(words)]
    assert [(int(row["sentence"]), int(row["position"]), row["word"]) for row in rows] == expected
    scores = list(surprisal(toy, TEXT))
    assert float(rows[-1]["forward"]) == pytest.approx(scores[3].forward[2], abs=1e-6)
    assert [row["in_vocabulary"] for row in rows[:7]] == ["1", "1", "1", "1", "1", "0", "1"]


def test_a_wrong_state_is_refused_before_anything_is_read(toy: Model) -> None:
    with pytest.raises(InputError, match="state is 'warm'"):
        surprisal(toy, TEXT, state="warm")  # type: ignore[arg-type]
