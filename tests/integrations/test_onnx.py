"""An exported model in onnxruntime returns the layers of the model, for ids made as its metadata describes."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings

from elmore import Embedder, load
from elmore.config import CharacterConfig, Direction, ModelConfig
from elmore.engine.state import State
from elmore.errors import CannotExpress, InputError, MissingExtra
from elmore.formats import Checkpoint, ModelCard
from elmore.integrations.onnx import export_onnx
from elmore.integrations.onnx.export import onnx_model
from elmore.model import Model
from elmore.sources.tiny_random import random_tensors
from fixture_variants import VARIANTS
from one_way import DIRECTIONS, one_way
from reference import CarriedRows, ManyLanguagesModel, PublishedModel
from reference.as_checkpoint import as_checkpoint
from reference.random_models import random_many_languages
from reference.strategies import batches, models, seeds

Array = np.ndarray[Any, Any]
Sentences = Sequence[Sequence[str]]
LONG = "antidisestablishmentarianism-" * 4
RAGGED = [["He", "drew", "his", "bow", "."], [], ["Déjà", "東京", LONG], ["<S>", "</S>", "<UNK>"] * 3, ["a"]]


class Exported:
    """An exported model, used without Elmore."""

    def __init__(self, model: onnx.ModelProto | str | Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["elmore"])

    def inputs(self, sentences: Sentences) -> dict[str, Array]:
        shape = (len(sentences), max(map(len, sentences), default=0))
        made: dict[str, Array] = {"lengths": np.array([len(words) for words in sentences], dtype=np.int64)}
        if characters := self.about.get("characters"):
            ids = np.full((*shape, characters["max_characters"]), characters["padding"], dtype=np.int64)
            for row, words in zip(ids, sentences, strict=True):
                for place, word in zip(row, words, strict=False):
                    place[:] = spelt(word, characters)
            made["character_ids"] = ids
        if words := self.about.get("words"):
            numbers = {word: number for number, word in enumerate(words["vocabulary"])}
            made["word_ids"] = np.zeros(shape, dtype=np.int64)
            for row, sentence in zip(made["word_ids"], sentences, strict=True):
                row[: len(sentence)] = [numbers.get(one[: words["longest"]], words["unknown"]) for one in sentence]
        return made

    def layers(self, sentences: Sentences) -> Array:
        return self.run(**self.inputs(sentences))

    def run(self, **inputs: Array) -> Array:
        (layers,) = self.session.run(["layers"], inputs)
        return layers


def spelt(word: str, about: dict[str, Any]) -> list[int]:
    most = about["max_characters"]
    if word in about["special_words"]:
        ids = [about["special_words"][word]]
    elif about["alphabet"] == "bytes":
        ids = list(word.encode("utf-8", errors="ignore")[: most - 2])
    else:
        ids = [about["ids"].get(character, about["unknown"]) for character in word[: most - 2]]
    ids = [about["word_begin"], *ids, about["word_end"]]
    return ids + [about["padding"]] * (most - len(ids))


def assert_equal(exported: Array, expected: Sequence[Array]) -> None:
    """To 1e-5, relative above 1; exactly zero beyond the end of a sentence."""
    for row, layers in enumerate(expected):
        n = layers.shape[1]
        own = exported[:, row, :n]
        assert own.shape == layers.shape
        assert (np.abs(own - layers) <= 1e-5 * np.maximum(1, np.abs(layers))).all(), np.abs(own - layers).max()
        assert not exported[:, row, n:].any()


def check_layers_of(model: Model, sentences: Sentences) -> None:
    embedder = Embedder(model)
    assert_equal(Exported(onnx_model(model)).layers(sentences), embedder.encode(sentences, layers="all"))


@settings(max_examples=40, deadline=None)
@given(models, batches, seeds)
def test_export_layers_equal_reference(
    model: PublishedModel | ManyLanguagesModel, texts: list[list[str]], seed: int
) -> None:
    built = Model(as_checkpoint(model))
    draw = np.random.default_rng(seed)
    zeros = State.zeros(built.config)
    start = State(*(draw.normal(0, 0.5, part.shape).astype(np.float32) for part in (zeros.h, zeros.c)))
    row = [
        [(h[0].astype(np.float64), c[0].astype(np.float64)) for h, c in zip(start.h[:, g], start.c[:, g], strict=True)]
        for g in range(built.config.num_directions)
    ]
    expected = CarriedRows(model.network(), [row] * len(texts)).read(texts)
    assert_equal(Exported(onnx_model(built.with_start(start, "random numbers"))).layers(texts), expected)


MODELS = [
    "allennlp",
    "bilm-tf-checkpoint",
    "elmoformanylangs/elmo_char_only",
    "elmoformanylangs/elmo_word_char",
    "elmoformanylangs/elmo_word_only",
    "seqvec",
    *(f"variants/{name}" for name in VARIANTS),
]


@pytest.mark.parametrize("name", MODELS)
def test_export_layers_equal_embedder_for_every_published_model(fixtures: Path, name: str) -> None:
    check_layers_of(load(fixtures / name), RAGGED)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_export_of_one_direction_equals_embedder(tiny_model: Model, direction: Direction) -> None:
    model = one_way(tiny_model, direction)
    check_layers_of(model, RAGGED)
    assert Exported(onnx_model(model)).about["directions"] == [direction]


def test_export_applies_clips_projections_and_skip_connections() -> None:
    """Without any one of them the layers change by far more than the tolerance."""
    config = ModelConfig(
        characters=CharacterConfig(embedding_dim=4, filters=((1, 4), (3, 4)), num_highways=1),
        vector_dim=6,
        cell_dim=9,
        cell_clip=0.4,
        projection_clip=0.3,
    )
    tensors = random_tensors(config, seed=3, gain=1.5)

    def exported(**changes: Any) -> Array:
        checkpoint = Checkpoint(config=replace(config, **changes), tensors=tensors, card=ModelCard())
        return Exported(onnx_model(Model(checkpoint))).layers(RAGGED)

    as_it_is = exported()
    for change in ({"cell_clip": None}, {"projection_clip": None}, {"skip_connections": False}, {"forget_bias": 0.0}):
        assert np.abs(exported(**change) - as_it_is).max() > 1e-2, change


def test_export_of_elmore_en_equals_embedder() -> None:
    embedder = Embedder.from_pretrained(device="cpu")
    texts = [
        "He drew his bow and let the arrow fly.",
        "The actors took a bow.",
        "Yes.",
        "Its perplexity, measured on articles that it has not seen, is lower than one would expect of a small model.",
        "Im Café an der Ecke gibt es „Käsekuchen“ für 3,50 €.",
    ]
    sentences = [embedder.tokenize(text).words for text in texts]
    exported = Exported(onnx_model(embedder.model))
    assert_equal(exported.layers(sentences), embedder.encode(sentences, layers="all"))
    assert (exported.about["name"], exported.about["license"]) == ("elmore-en", "CC-BY-SA-4.0")


@pytest.fixture(scope="module")
def tiny_exported(tiny_model: Model) -> Exported:
    return Exported(onnx_model(tiny_model))


def test_exported_sentence_has_equal_vectors_alone_and_batched(tiny_exported: Exported) -> None:
    together = tiny_exported.layers(RAGGED)
    for row, sentence in enumerate(RAGGED):
        assert_equal(tiny_exported.layers([sentence]), [together[:, row, : len(sentence)]])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_exported_graph_accepts_empty_inputs(tiny_exported: Exported, shape: tuple[int, int]) -> None:
    layers = tiny_exported.run(
        character_ids=np.zeros((*shape, 50), dtype=np.int64), lengths=np.zeros(shape[0], dtype=np.int64)
    )
    assert layers.shape == (3, *shape, 32)


def test_exported_graph_ignores_ids_beyond_the_end(tiny_exported: Exported) -> None:
    inputs = tiny_exported.inputs(RAGGED)
    before = tiny_exported.run(**inputs)
    for row, length in zip(inputs["character_ids"], inputs["lengths"], strict=True):
        row[length:] = 7
    assert_equal(tiny_exported.run(**inputs), [before[:, row, : len(words)] for row, words in enumerate(RAGGED)])


def test_exported_graph_clips_lengths_to_the_input(tiny_exported: Exported) -> None:
    inputs = tiny_exported.inputs([["a", "bow"], ["b", "c"]])
    right = tiny_exported.run(**inputs)
    np.testing.assert_array_equal(tiny_exported.run(**inputs | {"lengths": np.array([9, 2])}), right)
    assert not tiny_exported.run(**inputs | {"lengths": np.array([-1, 0])}).any()


def test_exported_file_describes_inputs_and_outputs(tiny_exported: Exported, tiny_model: Model) -> None:
    session = tiny_exported.session
    assert [(one.name, one.type, one.shape) for one in session.get_inputs()] == [
        ("character_ids", "tensor(int64)", ["batch", "length", 50]),
        ("lengths", "tensor(int64)", ["batch"]),
    ]
    [output] = session.get_outputs()
    assert (output.name, output.type, output.shape) == ("layers", "tensor(float)", [3, "batch", "length", 32])
    about = tiny_exported.about
    assert about["fingerprint"] == tiny_model.fingerprint()
    assert (about["version"], about["layers"], about["dim"]) == (1, 3, 32)
    assert about["text"]["tokenizer"] == "moses"


def test_export_of_word_and_character_model_takes_both(fixtures: Path) -> None:
    session = Exported(onnx_model(load(fixtures / "elmoformanylangs" / "elmo_word_char"))).session
    assert [one.name for one in session.get_inputs()] == ["character_ids", "word_ids", "lengths"]


def test_export_looks_up_the_start_of_long_words() -> None:
    embedder = {"activation": "relu", "filters": [(1, 2)], "n_highway": 0, "max_characters_per_token": 8}
    lstm = {"projection_dim": 2, "dim": 3, "n_layers": 1, "use_skip_connections": True, "cell_clip": 3, "proj_clip": 3}
    config = {"token_embedder": embedder | {"word_dim": 3, "char_dim": 2}, "encoder": lstm}
    model = Model(as_checkpoint(random_many_languages(1, config, words=["abcdef"], letters="abcdefgh")))
    check_layers_of(model, [["abcdefgh", "abcdef", "abcde"]])


@pytest.mark.parametrize("name", ["allennlp", "elmoformanylangs/elmo_word_char", "variants/no_projections"])
def test_exported_graph_is_valid_onnx(fixtures: Path, name: str) -> None:
    built = onnx_model(load(fixtures / name))
    onnx.checker.check_model(built, full_check=True)
    bodies = [node.attribute for node in built.graph.node if node.op_type == "Scan"]
    outputs = [output for body in bodies for one in body for output in one.g.output]
    # onnxruntime 1.15 rejects a body without them.
    assert outputs
    assert all(output.type.tensor_type.HasField("shape") for output in outputs)


def test_export_contains_the_warm_start_state(tiny_model: Model) -> None:
    state = State(np.full_like(tiny_model.start.h, 0.5), np.full_like(tiny_model.start.c, -0.5))
    warm = tiny_model.with_start(state, "a test")
    check_layers_of(warm, RAGGED)
    assert Exported(onnx_model(warm)).about["fingerprint"] != tiny_model.fingerprint()


def test_export_writes_same_bytes_for_same_model(tiny_model: Model, tmp_path: Path) -> None:
    for name in ("one.onnx", "other.onnx"):
        export_onnx(tiny_model, tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()


def test_export_replaces_a_file_only_with_force(tiny_model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("years of work")
    with pytest.raises(InputError, match="exists; choose another path"):
        export_onnx(tiny_model, path)
    assert path.read_text() == "years of work"
    export_onnx(tiny_model, path, force=True)
    assert Exported(path).about["name"] == "tiny-random"


@pytest.mark.parametrize("most", [100_000, 150_000])  # less than the weights; and less than they and the rest
def test_export_rejects_a_model_too_large_for_onnx(tiny_model: Model, tmp_path: Path, monkeypatch, most: int) -> None:
    monkeypatch.setattr("elmore.integrations.onnx.export.MAX_BYTES", most)
    with pytest.raises(CannotExpress, match="an ONNX file at most"):
        export_onnx(tiny_model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_export_without_onnx_raises_missing_extra(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("elmore.integrations.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"pip install 'elmore\[onnx\]'"):
        import elmore.integrations.onnx  # noqa: F401
