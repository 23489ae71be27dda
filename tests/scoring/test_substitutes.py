"""What the model would put in the brackets."""

from pathlib import Path

import numpy as np
import pytest

from elmore import load
from elmore.config import Direction
from elmore.errors import InputError, InputWarning
from elmore.model import Model
from elmore.scoring import LanguageModelScorer, substitutes, surprisal
from one_way import DIRECTIONS, one_way
from random_softmax import with_softmax

SENTENCE = "the cat sat on a [mat] and a bow ."


def test_substitutes_probabilities_equal_surprisal_of_the_word(toy: Model) -> None:
    found = substitutes(SENTENCE, model=toy, top=99, specials=True)
    assert found.backward is not None
    assert len(found.forward) == 15
    for word, probability in found.forward:
        [scores] = surprisal([SENTENCE.replace("[mat]", word).split()], model=toy)
        assert scores.backward is not None
        assert probability == pytest.approx(2 ** -scores.forward[5], rel=2e-5)
        assert dict(found.backward)[word] == pytest.approx(2 ** -scores.backward[5], rel=2e-5)


def test_both_is_normalized_product_over_unigram_probability(toy: Model) -> None:
    forward, backward, both = substitutes(SENTENCE, model=toy, top=99, specials=True)
    assert backward is not None
    assert both is not None
    assert toy.vocabulary is not None
    anyway = {word: np.log((rank + 2) / (rank + 1)) for rank, word in enumerate(toy.vocabulary.words)}
    products = {word: probability * dict(backward)[word] / anyway[word] for word, probability in forward}
    total = sum(products.values())
    for word, probability in both:
        assert probability == pytest.approx(products[word] / total, rel=2e-5)
    assert sum(probability for _, probability in both) == pytest.approx(1)


def test_both_without_special_tokens_is_normalized_again(toy: Model) -> None:
    without = substitutes(SENTENCE, model=toy, top=99).both or []
    with_marks = dict(substitutes(SENTENCE, model=toy, top=99, specials=True).both or [])
    assert sum(probability for _, probability in without) == pytest.approx(1)
    total = sum(with_marks[word] for word, _ in without)
    assert total < 1
    for word, probability in without:
        assert probability == pytest.approx(with_marks[word] / total, rel=2e-5)


def test_substitutes_returns_the_top_candidates_first(toy: Model) -> None:
    few, all_of_them = substitutes(SENTENCE, model=toy, top=3), substitutes(SENTENCE, model=toy, top=99)
    for some, all_words in zip(few, all_of_them, strict=True):
        assert some is not None
        assert all_words is not None
        assert some == all_words[:3]
        probabilities = [probability for _, probability in all_words]
        assert probabilities == sorted(probabilities, reverse=True)


def test_substitutes_omits_special_tokens_by_default(toy: Model) -> None:
    without, with_marks = (dict(substitutes(SENTENCE, model=toy, top=99, specials=s).forward) for s in (False, True))
    assert with_marks.keys() - without.keys() == {"<S>", "</S>", "<UNK>"}
    assert without == {word: with_marks[word] for word in without}


def test_substitutes_ignores_the_bracketed_text(toy: Model) -> None:
    expected = substitutes(SENTENCE, model=toy)
    for inside in ("dog", "very old mat", "", "<S>"):
        found = substitutes(SENTENCE.replace("mat", inside), model=toy)
        assert [word for word, _ in found.forward] == [word for word, _ in expected.forward]
        np.testing.assert_allclose([p for _, p in found.both or ()], [p for _, p in expected.both or ()], rtol=5e-6)


def test_substitutes_tokenizes_strings_but_not_lists(toy: Model) -> None:
    expected = substitutes(SENTENCE, model=toy)
    assert substitutes(SENTENCE.split(), model=toy) == expected
    assert substitutes(SENTENCE.replace("bow .", "bow."), model=toy) == expected
    assert substitutes(SENTENCE.replace("bow .", "bow.").split(), model=toy) != expected


@pytest.mark.parametrize("sentence", ["[mat]", "[mat] sat", "the [mat]", ["[]"]])
def test_substitutes_accepts_brackets_at_either_end(toy: Model, sentence: str | list[str]) -> None:
    found = substitutes(sentence, model=toy)
    assert len(found.forward) == 10


@pytest.mark.parametrize("sentence", ["no brackets", "[two] of [them]", ["[", "]"], ["[a]", "[b]"], ""])
def test_substitutes_requires_exactly_one_bracketed_position(toy: Model, sentence: str | list[str]) -> None:
    with pytest.raises(InputError, match="exactly one position with"):
        substitutes(sentence, model=toy)


def test_substitutes_of_forward_model_has_only_forward(fixtures: Path) -> None:
    model = load(fixtures / "variants" / "unidirectional_one_layer_words")
    found = substitutes("the [x] of", model=with_softmax(model, model.vocabulary), top=4)
    assert len(found.forward) == 4
    assert (found.backward, found.both) == (None, None)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_substitutes_of_one_direction_equal_those_of_both(toy: Model, direction: Direction) -> None:
    both, alone = (substitutes(SENTENCE, model=model)._asdict() for model in (toy, one_way(toy, direction)))
    assert [word for word, _ in alone[direction]] == [word for word, _ in both[direction]]
    np.testing.assert_allclose([p for _, p in alone[direction]], [p for _, p in both[direction]], rtol=5e-6)
    assert [side for side in alone if alone[side] is not None] == [direction]


def test_scorer_reads_the_softmax_once(toy: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = LanguageModelScorer(toy)
    monkeypatch.setattr("elmore.scoring.scorer.Softmax.of", None)  # a second call would fail
    assert substitutes(SENTENCE, model=scorer).forward


def test_substitutes_of_trained_model_fit_their_context(fixtures: Path) -> None:
    # The checkpoint was trained on five sentences until it predicted them; this is one of them.
    text = (fixtures / "bilm-tf-checkpoint" / "data.txt").read_text().splitlines()[0]
    found = substitutes(text.replace("language", "[language]").split(), model=load(fixtures / "bilm-tf-checkpoint"))
    assert found.both is not None
    assert found.both[0].word == "language"


@pytest.mark.parametrize("top", [0, 2.5, True])
def test_substitutes_rejects_a_wrong_top(toy: Model, top: object) -> None:
    with pytest.raises(InputError, match="top is"):
        substitutes(SENTENCE, model=toy, top=top)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("penn", "words"),
    [
        (["I", "do", "[n't]", "-LRB-", "a"], ["I", "don", "['t]", "(", "a"]),
        (["I", "[do]", "n't", "-LRB-", "a"], ["I", "[don]", "'t", "(", "a"]),
        (["it", "[gon]", "na", "sit"], ["it", "[gonna]", "sit"]),
        (["it", "gon", "[na]", "sit"], ["it", "[gonna]", "sit"]),
        (["a", "[and\\/or]", "sit"], ["a", "[three words]", "sit"]),
        (["a", "-LRB-", "[]", "-RRB-"], ["a", "(", "[]", ")"]),
        (["[-LRB-]", "a"], ["[(]", "a"]),
    ],
)
def test_substitutes_converts_penn_tokens_around_the_position(toy: Model, penn: list[str], words: list[str]) -> None:
    assert substitutes(penn, model=toy, token_style="penn") == substitutes(words, model=toy)


def test_substitutes_warns_about_penn_tokens(toy: Model) -> None:
    with pytest.warns(InputWarning, match="the tokens look Penn-style"):
        substitutes(["I", "do", "n't", "[sit]"], model=toy)
    with pytest.raises(InputError, match="token_style is 'spacy'; it must be one of moses, penn, nltk, plain, ud"):
        substitutes(["I", "[sit]"], model=toy, token_style="spacy")  # type: ignore[arg-type]
