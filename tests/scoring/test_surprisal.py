"""The surprisal of each word, in the order of the sentence; and the tables of surprisals."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from elmore import load
from elmore.config import Direction
from elmore.errors import InputError
from elmore.model import Model
from elmore.scoring import LanguageModelScorer, Surprisal, perplexity, surprisal
from elmore.scoring.surprisal import TableFormat, table_format, write_table
from one_way import DIRECTIONS, one_way
from random_softmax import with_softmax

TEXT = [["the", "cat", "sat", "on", "a", "rug", "."], [], ["bow"], ['"', "the", '"']]


def table(scores: Iterable[Surprisal], form: TableFormat, *, logarithms: bool = False) -> str:
    file = io.StringIO()
    write_table(scores, file, format=form, logarithms=logarithms)
    return file.getvalue()


def test_surprisal_has_sentence_order_in_both_directions(toy: Model) -> None:
    for scores, (words, found) in zip(surprisal(TEXT, model=toy), LanguageModelScorer(toy).score(TEXT), strict=True):
        assert scores.words == words
        assert scores.backward is not None
        assert scores.both is not None
        assert len(scores.forward) == len(scores.backward) == len(scores.both) == len(words)
        for place in range(len(words)):
            # Backwards, the last word is the first that is predicted.
            assert scores.forward[place] == pytest.approx(-found[0, place] / np.log(2))
            assert scores.backward[place] == pytest.approx(-found[1, len(words) - 1 - place] / np.log(2))
            assert scores.both[place] == pytest.approx((scores.forward[place] + scores.backward[place]) / 2)


def test_surprisal_depends_on_one_side_in_each_direction(toy: Model) -> None:
    first, other_end, other_start = surprisal(
        [["the", "cat", "sat"], ["the", "cat", "mat"], ["bow", "cat", "sat"]], model=toy
    )
    assert first.backward is not None
    assert other_end.backward is not None
    assert other_start.backward is not None
    np.testing.assert_allclose(first.forward[:2], other_end.forward[:2], atol=1e-5)
    np.testing.assert_allclose(first.backward[1:], other_start.backward[1:], atol=1e-5)
    assert abs(first.forward[1] - other_start.forward[1]) > 1e-3
    assert abs(first.backward[1] - other_end.backward[1]) > 1e-3


def test_surprisal_marks_words_outside_the_vocabulary(toy: Model) -> None:
    assert next(surprisal(TEXT, model=toy)).in_vocabulary == [True, True, True, True, True, False, True]


def test_surprisal_with_carried_state_depends_on_earlier_sentences(toy: Model) -> None:
    twice = [["the", "cat"], ["the", "cat"]]
    fixed, carried = (list(surprisal(twice, model=toy, state=state)) for state in ("fixed", "carry"))
    np.testing.assert_allclose(fixed[0].forward, fixed[1].forward, atol=1e-6)
    np.testing.assert_allclose(fixed[0].forward, carried[0].forward, atol=1e-5)
    assert np.abs(carried[1].forward - carried[0].forward).max() > 1e-3
    last = perplexity(twice, model=toy, batch_size=1, passage=1, first_words=2)
    assert np.log2(last.forward) == pytest.approx(np.mean([scores.forward for scores in carried]), rel=1e-5)


def test_surprisal_of_forward_model_has_only_forward(fixtures: Path) -> None:
    model = load(fixtures / "variants" / "unidirectional_one_layer_words")
    [scores] = surprisal([["the", "of"]], model=with_softmax(model, model.vocabulary))
    assert scores.forward.shape == (2,)
    assert (scores.backward, scores.both) == (None, None)
    header, first, _ = csv.reader(io.StringIO(table([scores], "tsv")), dialect="excel-tab")
    assert first == ["0", "0", "the", "1", f"{scores.forward[0]:.6f}", "", ""]
    assert len(header) == len(first)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("state", ["fixed", "carry"])
def test_surprisal_of_one_direction_equals_that_of_both(toy: Model, direction: Direction, state) -> None:
    both, alone = (list(surprisal(TEXT, model=model, state=state)) for model in (toy, one_way(toy, direction)))
    for expected, found in zip(both, alone, strict=True):
        assert (found.words, found.in_vocabulary) == (expected.words, expected.in_vocabulary)
        np.testing.assert_allclose(getattr(found, direction), getattr(expected, direction), rtol=0, atol=1e-5)
        assert found.both is None
    for row in csv.DictReader(io.StringIO(table(alone, "tsv")), dialect="excel-tab"):
        assert [name for name in ("forward", "backward", "both") if row[name]] == [direction]


COLUMNS = ["sentence", "position", "word", "in_vocabulary", "forward", "backward", "both"]


def rows_of(text: str, form: str) -> list[dict[str, object]]:
    """A table read back by those who read such files."""
    match form:
        case "json":
            return json.loads(text)
        case "jsonl":
            return [json.loads(line) for line in text.splitlines()]
        case _:
            return list(csv.DictReader(io.StringIO(text), dialect="excel" if form == "csv" else "excel-tab"))


@pytest.mark.parametrize("form", ["tsv", "csv", "json", "jsonl"])
def test_write_table_can_be_read_back_in_every_format(toy: Model, form) -> None:
    text = [*TEXT, ["a,b", "c\td", "né"]]
    scores = list(surprisal(text, model=toy))
    rows = rows_of(table(scores, form), form)
    assert list(rows[0]) == COLUMNS
    expected = [(number, place, word) for number, words in enumerate(text) for place, word in enumerate(words)]
    assert [(int(row["sentence"]), int(row["position"]), row["word"]) for row in rows] == expected
    assert [int(row["in_vocabulary"]) for row in rows[:7]] == [1, 1, 1, 1, 1, 0, 1]
    for side in ("forward", "backward", "both"):
        assert [float(row[side]) for row in rows] == pytest.approx(
            np.concatenate([getattr(one, side) for one in scores]).tolist(), abs=1e-6
        )


def test_write_table_with_logarithms_writes_log_probabilities(toy: Model) -> None:
    bits, logs = (rows_of(table(surprisal(TEXT, model=toy), "json", logarithms=x), "json") for x in (False, True))
    assert list(logs[0])[-3:] == ["log_forward", "log_backward", "log_both"]
    for one, other in zip(bits, logs, strict=True):
        assert one["forward"] > 0 > other["log_forward"]
        assert other["log_both"] == pytest.approx(-one["both"] * np.log(2), abs=1e-5)


@pytest.mark.parametrize(("form", "written"), [("tsv", "\t".join(COLUMNS) + "\n"), ("json", "[]\n"), ("jsonl", "")])
def test_write_table_without_words_has_no_rows(form, written: str) -> None:
    assert table([], form) == written


def test_write_table_writes_nothing_before_first_score() -> None:
    def failing() -> Iterator[Surprisal]:
        raise InputError("no")
        yield

    file = io.StringIO()
    with pytest.raises(InputError):
        write_table(failing(), file, format="tsv")
    assert file.getvalue() == ""


def test_table_format_follows_file_name() -> None:
    names = ["-", "a.tsv", "a.CSV", "a.json", "a.jsonl"]
    assert [table_format(name) for name in names] == ["tsv", "tsv", "csv", "json", "jsonl"]
    with pytest.raises(InputError, match=r"a\.xlsx: a table of surprisals is written to \.tsv, "):
        table_format("a.xlsx")


def test_surprisal_rejects_wrong_state_before_reading(toy: Model) -> None:
    with pytest.raises(InputError, match="state is 'warm'"):
        surprisal(TEXT, model=toy, state="warm")  # type: ignore[arg-type]
