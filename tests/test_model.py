"""A model: plain data with a fingerprint, saved and loaded by name or path."""

import copy
import gzip
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore import Elmo, Embedder, Model, load
from elmore.config import ModelConfig
from elmore.engine.state import State
from elmore.engine.weights import as_float
from elmore.errors import InputError
from elmore.formats import Checkpoint
from elmore.model import save
from elmore.sources.tiny_random import random_tensors
from elmore.text.vocabulary import Vocabulary


def test_save_replaces_a_model_only_with_force(tmp_path: Path, tiny_model: Model) -> None:
    ways = (partial(save, tiny_model), Embedder(tiny_model).save_pretrained, Elmo(tiny_model).save_pretrained)
    for number, save_model in enumerate(ways):
        folder = tmp_path / str(number)
        save_model(folder)
        with pytest.raises(InputError, match=r"exists; choose another path, or replace it with --force"):
            save_model(folder)
        save_model(folder, force=True)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not a model folder of Elmore, and not empty"):
        save(tiny_model, tmp_path / "papers", force=True)


@pytest.mark.parametrize("name", ["words.projection.weight", "lstm.0.recurrent", "words.characters"])
def test_fingerprint_depends_on_each_weight(tiny_model: Model, name: str) -> None:
    assert load("tiny-random").fingerprint() == tiny_model.fingerprint()
    array = np.array(as_float(tiny_model.checkpoint.tensors[name]))
    array.flat[0] += 1e-3
    changed = replace(tiny_model.checkpoint, tensors={**tiny_model.checkpoint.tensors, name: array})
    assert Model(changed).fingerprint() != tiny_model.fingerprint()


@pytest.mark.parametrize(
    "changes", [{"cell_clip": 0.05}, {"skip_connections": False}, {"forget_bias": 0.0}, {"bos_token": "<bos>"}], ids=str
)
def test_fingerprint_depends_on_the_config(tiny_model: Model, changes: dict[str, Any]) -> None:
    config = replace(tiny_model.config, **changes)
    assert Model(replace(tiny_model.checkpoint, config=config)).fingerprint() != tiny_model.fingerprint()


def test_fingerprint_depends_on_the_text_style_but_not_the_name(tiny_model: Model) -> None:
    card = tiny_model.card
    renamed = tiny_model.with_card(replace(card, name="other", description="other"))
    assert renamed.fingerprint() == tiny_model.fingerprint()
    lowercased = tiny_model.with_card(replace(card, text=replace(card.text, lowercase=True)))
    assert lowercased.fingerprint() != tiny_model.fingerprint()


def test_fingerprint_depends_on_start_state_and_vocabulary(tiny_model: Model) -> None:
    first, second = (State(tiny_model.start.h + h, tiny_model.start.c) for h in (1, 2))
    prints = {
        tiny_model.fingerprint(),
        *(tiny_model.with_start(one, "a text").fingerprint() for one in (first, second)),
    }
    assert len(prints) == 3
    config = ModelConfig(
        characters=None, vocab_size=3, word_embedding_dim=4, token_projection=False, vector_dim=4, cell_dim=6
    )
    tensors = random_tensors(config, seed=1, gain=1)
    vocabularies = [Vocabulary(["<S>", "</S>", word]) for word in ("cat", "dog")]
    models = [Model(Checkpoint(config=config, tensors=tensors, vocabulary=words)) for words in vocabularies]
    assert models[0].fingerprint() != models[1].fingerprint()


def test_fingerprint_never_changes(tiny_model: Model) -> None:
    # Task models, files of vectors and resumable jobs store these numbers.
    assert tiny_model.fingerprint() == "78df9c4421b512263dab8fc0a158a81f9ce2d042c6e171be3a14f41e2ee94c6f"
    assert load().fingerprint() == "2a7bba94a96f1a5eb8210165810b994f47773cab2641cd5dfe8a21011e6a1eaf"


def test_model_without_weights_has_its_fingerprint_only_if_computed_before() -> None:
    model = load("tiny-random")
    assert not model.without_weights().has_fingerprint
    fingerprint = model.fingerprint()
    light = model.without_weights()
    assert light.has_fingerprint
    assert light.fingerprint() == fingerprint
    assert light.checkpoint.tensors == {}


def test_load_takes_a_gzipped_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf<S>\n</S>\nbow\n"))
    assert load("tiny-random", vocabulary=tmp_path / "v.txt.gz").vocabulary == Vocabulary(["<S>", "</S>", "bow"])


def test_start_is_zeros_unless_the_card_names_a_warm_state(tiny_model: Model) -> None:
    assert not tiny_model.start.h.any()
    assert (tiny_model.start.h.dtype, tiny_model.start.rows) == (np.float32, 1)
    state = State(tiny_model.start.h + 1, tiny_model.start.c - 1)
    warm = tiny_model.with_start(state, "a test")
    np.testing.assert_array_equal(warm.start.c, state.c)
    assert (warm.card.start_state, warm.card.start_state_source) == ("warm", "a test")
    cold = warm.with_card(replace(warm.card, start_state="zeros"))
    assert not cold.start.h.any()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("name", ["tiny-random", "elmore-en"])
def test_copied_model_has_the_same_fingerprint_and_softmax(name: str, copied: Any) -> None:
    model = load(name)
    other = copied(model)
    assert other.fingerprint() == model.fingerprint()
    assert (other.softmax is None) == (model.softmax is None)
    if model.softmax is not None and other.softmax is not None:
        for part, array in model.softmax().items():
            np.testing.assert_array_equal(as_float(other.softmax()[part]), as_float(array))


def test_repr_names_model_and_sizes(tiny_model: Model) -> None:
    assert repr(tiny_model) == "Model('tiny-random', dim=32, layers=3, parameters=36,936)"
    assert "<tr><th>layers</th><td>3 of 32</td></tr>" in tiny_model._repr_html_()


def test_load_prefers_path_to_builtin_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Model) -> None:
    save(tiny_model.with_card(replace(tiny_model.card, name="mine")), tmp_path / "tiny-random")
    monkeypatch.chdir(tmp_path)
    for name in ("tiny-random", "./tiny-random", Path("tiny-random")):
        assert load(name).card.name == "mine"
    monkeypatch.chdir(tmp_path.parent)
    assert load("tiny-random").card.name == "tiny-random"


@pytest.mark.parametrize("wrong", [5, ["tiny-random"], b"tiny-random"])
def test_load_rejects_what_is_no_name(wrong: Any) -> None:
    with pytest.raises(InputError, match="is not the name of a model; give a name or a path"):
        load(wrong)


def test_load_of_a_model_advises_to_use_it(tiny_model: Model) -> None:
    with pytest.raises(InputError, match=r"is loaded already; pass it to Embedder\(model\)"):
        load(tiny_model)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["elmore-en", "tiny-random"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don’t know.", "I don 't know ."),
        ("Zu\u0308rich co\u00adoperates\u200b.", "Zürich cooperates ."),
        ("See http://x.org/a?b, mail me@x.org.", "See http://x.org/a?b , mail me@x.org ."),
        ("Look at c.org.", "Look at c.org ."),
        ("So do I.", "So do I ."),
        ("@user #cats :-)", "@user #cats :-)"),
    ],
)
def test_shipped_models_tokenize_everyday_lines(name: str, text: str, expected: str) -> None:
    assert Embedder.from_pretrained(name, device="cpu").tokenize(text).words == expected.split(" ")
