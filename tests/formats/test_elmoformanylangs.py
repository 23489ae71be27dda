import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.engine.numpy_engine import NumpyEngine
from elmore.errors import ElmoreError, FormatError
from elmore.formats import Checkpoint, read_checkpoint
from elmore.formats import elmoformanylangs as module
from elmore.formats.elmoformanylangs import ELMOFORMANYLANGS
from elmore.formats.storage.container import FileContainer, folder, open_container
from packed_sentences import run_sentences, store_for
from reference.many_languages import ManyLanguagesModel
from reference.random_models import random_many_languages
from reference.strategies import many_languages_models

NETWORK: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 4, "cell_clip": 1.0, "proj_clip": 0.5, "dim": 6, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 3], [2, 2]],
        "n_highway": 1,
        "word_dim": 3,
        "char_dim": 2,
        "max_characters_per_token": 10,
    },
}
KINDS = {"encoder": "elmo", "token_embedder": "cnn"}
WORDS, LETTERS = ["the", "cat"], list("thecas")


def write(model: ManyLanguagesModel, path: Path, *, as_zip: bool = False) -> None:
    """The directory that ELMoForManyLangs would write."""
    config = {part: {"name": kind} | dict(model.config[part]) for part, kind in KINDS.items()}
    (path / "network.json").write_text(json.dumps(config))
    (path / "config.json").write_text(json.dumps({"seed": 1, "config_path": "/home/somebody/configs/network.json"}))
    for name, ids in (("word.dic", model.words), ("char.dic", model.characters)):
        write_ids(path / name, ids)
    for name, weights in (("token_embedder.pkl", model.token_embedder), ("encoder.pkl", model.encoder)):
        tensors = {key: torch.tensor(values, dtype=torch.float32) for key, values in weights.items()}
        torch.save(tensors, path / name, _use_new_zipfile_serialization=as_zip)


def write_ids(path: Path, ids: Mapping[str, int]) -> None:
    path.write_bytes("".join(f"{key}\t{number}\n" for key, number in ids.items()).encode())


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    write(random_many_languages(0, NETWORK, words=WORDS, letters=LETTERS), tmp_path)
    return tmp_path


def read(path: Path) -> Checkpoint:
    return read_checkpoint(folder(path))


def vectors(checkpoint: Checkpoint, sentences: list[list[str]]) -> list[Any]:
    """All layers of each sentence without boundaries, from the start state."""
    engine = NumpyEngine(checkpoint)
    return run_sentences(engine, store_for(engine, checkpoint), sentences, boundaries=False)[0]


@pytest.mark.parametrize("name", ["elmo_word_char", "elmo_char_only", "elmo_word_only"])
def test_vectors_are_those_of_the_original_program(fixtures: Path, name: str) -> None:
    sentences = json.loads((fixtures / "elmoformanylangs" / "sentences.json").read_text())
    ours = vectors(read(fixtures / "elmoformanylangs" / name), sentences)
    with h5py.File(fixtures / "elmoformanylangs" / name / "expected.hdf5") as expected:
        for number, layers in enumerate(ours):
            np.testing.assert_allclose(layers, expected[f"first_{number}"], atol=5e-6, rtol=0)


@settings(deadline=None, max_examples=25)
@given(many_languages_models(), st.booleans())
def test_random_models_give_the_vectors_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory, model: ManyLanguagesModel, as_zip: bool
) -> None:
    path = tmp_path_factory.mktemp("model")
    write(model, path, as_zip=as_zip)
    sentences = [["the", "cat", "Déjà"], ["東京"]]
    for ours, tokens in zip(vectors(read(path), sentences), sentences, strict=True):
        theirs, _ = model.network().read(tokens)
        np.testing.assert_allclose(ours, theirs[:, 1:-1], atol=5e-6)


def test_a_zip_with_a_folder_inside_is_read_in_place(model_folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "136.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in model_folder.glob("*.*"):
            if file != archive:
                packed.write(file, f"de/{file.name}")
    ours, theirs = read_checkpoint(open_container(archive)), read(model_folder)
    assert all(np.array_equal(ours.tensors[name], theirs.tensors[name]) for name in theirs.tensors)


def test_the_configuration_is_found_by_its_path_or_by_its_name(model_folder: Path) -> None:
    expected = read(model_folder).config
    (model_folder / "configs").mkdir()
    (model_folder / "network.json").rename(model_folder / "configs" / "here.json")
    for path in ("configs/here.json", "./configs/here.json", "configs\\here.json"):
        (model_folder / "config.json").write_text(json.dumps({"config_path": path}))
        assert read(model_folder).config == expected
    (model_folder / "configs" / "here.json").rename(model_folder / "network.json")
    (model_folder / "config.json").write_text(json.dumps({"config_path": "C:\\Users\\somebody\\network.json"}))
    assert read(model_folder).config == expected


def test_a_path_out_of_the_folder_is_not_followed(model_folder: Path) -> None:
    inner = model_folder / "model"
    inner.mkdir()
    for file in model_folder.glob("*.*"):
        shutil.copy(file, inner)
    (inner / "network.json").unlink()
    for path in ("../network.json", str(model_folder / "network.json")):
        (inner / "config.json").write_text(json.dumps({"config_path": path}))
        with pytest.raises(FormatError, match=r"published configuration \(config.json names .*, which is missing\)"):
            read(inner)


def test_without_a_configuration_the_published_one_is_taken(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(model_folder).config
    (model_folder / "network.json").unlink()
    monkeypatch.setattr(module, "_PUBLISHED", NETWORK)
    assert read(model_folder).config == expected


def test_the_published_configuration_has_the_published_number_of_parameters() -> None:
    tables = {
        "word_emb_layer.embedding.weight": torch.empty(7, 0),
        "char_emb_layer.embedding.weight": torch.empty(9, 0),
    }
    config = module._config(module._PUBLISHED, tables)
    assert config.num_parameters == 94_066_752 + 100 * 7 + 50 * 9  # formats.md, section 11


def test_clips_come_from_the_configuration_and_biases_are_complete(model_folder: Path) -> None:
    config = read(model_folder).config
    assert (config.cell_clip, config.projection_clip, config.forget_bias) == (1.0, 0.5, 0.0)
    network = json.loads((model_folder / "network.json").read_text())
    network["encoder"] |= {"cell_clip": 0, "proj_clip": None}
    (model_folder / "network.json").write_text(json.dumps(network))
    config = read(model_folder).config
    assert (config.cell_clip, config.projection_clip) == (None, None)


def test_dictionaries_are_read_as_the_original_reads_them(model_folder: Path) -> None:
    # Lines end at line feeds only, the last tab counts, and a key of nothing but blanks is the ideographic space.
    letters = ["a\tb", "\x85x", " \u2003", "d", "e", "f"]
    marks = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    write_ids(model_folder / "char.dic", {key: number for number, key in enumerate([*letters, *marks])})
    characters = read(model_folder).character_vocabulary
    assert characters is not None
    assert list(characters)[:6] == ["a\tb", "x", "\u3000", "d", "e", "f"]
    assert list(characters.values()) == list(range(12))


def test_rows_without_a_word_get_a_name_that_is_no_token(model_folder: Path) -> None:
    write_ids(model_folder / "word.dic", {"<oov>": 0, "<bos>": 1, "<eos>": 2, "cat": 5})
    vocabulary = read(model_folder).vocabulary
    assert vocabulary is not None
    assert vocabulary.words == ("<oov>", "<bos>", "<eos>", "<no word 3>", "<no word 4>", "cat")


def test_of_a_word_that_stands_twice_the_last_row_counts(model_folder: Path) -> None:
    (model_folder / "word.dic").write_text("<oov>\t0\n<bos>\t1\n<eos>\t2\n \t3\ncat\t4\n\t5\n")
    vocabulary = read(model_folder).vocabulary
    assert vocabulary is not None
    assert vocabulary.index["\u3000"] == 5


def test_the_classifier_is_the_softmax_and_is_read_when_called(model_folder: Path) -> None:
    weight, bias = torch.randn(6, 4), torch.randn(6, 1)
    classifier = {"column_emb.weight": weight, "column_bias.weight": bias, "oov_column": torch.randn(4, 1)}
    torch.save(classifier, model_folder / "classifier.pkl")
    softmax = read(model_folder).softmax
    assert softmax is not None
    assert np.array_equal(softmax()["weight"], weight.numpy())
    assert np.array_equal(softmax()["bias"], bias[:, 0].numpy())
    (model_folder / "classifier.pkl").write_bytes(b"")
    assert read(model_folder).softmax is not None
    with pytest.raises(FormatError, match=r"classifier\.pkl"):
        softmax()


def test_the_lstm_encoder_is_refused_by_name(fixtures: Path) -> None:
    with pytest.raises(FormatError, match=r"cnn_tiny.json: encoder.name is 'lstm'; it must be elmo"):
        read(fixtures / "elmoformanylangs" / "lstm_word_char")


def edit(path: Path, part: str, **changes: Any) -> None:
    network = json.loads((path / "network.json").read_text())
    network[part] |= changes
    (path / "network.json").write_text(json.dumps(network))


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("token_embedder", {"name": "lstm"}, "network.json: token_embedder.name is 'lstm'; it must be cnn"),
        ("encoder", {"dim": "6"}, "network.json: encoder.dim is '6'; it must be a whole number"),
        ("encoder", {"projection_dim": None}, "network.json: encoder.projection_dim is None"),
        ("encoder", {"dim": 5}, r"encoder.pkl, by network.json: forward_layer_0.input_linearity.weight has shape"),
        ("encoder", {"n_layers": 3}, "encoder.pkl, by network.json: forward_layer_2.* is missing"),
        ("encoder", {"n_layers": 10**15}, "encoder.pkl, by network.json: forward_layer_2.* is missing"),
        ("token_embedder", {"filters": 3}, "network.json: token_embedder.filters is 3"),
        (
            "token_embedder",
            {"n_highway": 2},
            "token_embedder.pkl, by network.json: highways._layers.1.weight is missing",
        ),
        ("token_embedder", {"activation": "elu"}, "network.json: token_embedder.activation is 'elu'"),
        ("encoder", {"cell_clip": -1}, "network.json: encoder.cell_clip is -1"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(
    model_folder: Path, part: str, changes: dict[str, Any], reason: str
) -> None:
    edit(model_folder, part, **changes)
    with pytest.raises(FormatError, match=reason):
        read(model_folder)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("config.json", b"{", "config.json: not JSON"),
        ("config.json", b"{}", "config.json: config_path.* is missing"),
        ("network.json", b"{}", "network.json: encoder is missing"),
        ("word.dic", b"<oov>\t0\n<bos>\t1\n<eos>\t2\ncat", "word.dic: line 4 has no row number"),
        ("word.dic", b"<oov>\t0\n<bos>\t1\n<eos>\t2\ncat\t6", "word.dic: line 4 has row 6; the table has 6 rows"),
        ("word.dic", b"<oov>\t0\n<bos>\t1\n<eos>\t2\ncat\t2", "word.dic: row 2 belongs to both '<eos>' and 'cat'"),
        ("word.dic", b"<oov>\t0\n<bos>\t1\n", "word.dic: it lacks <eos>"),
        ("char.dic", b"a\t0", "char.dic: it lacks <bos>, <eos>, <oov>, <pad>, <bow>, <eow>"),
        ("char.dic", b"\xff\t0", "char.dic: not UTF-8 at byte 0"),
        ("char.dic", b"", "char.dic: it lacks <bos>"),
        ("encoder.pkl", b"", "encoder.pkl: this is not a file that torch.save wrote"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(model_folder: Path, name: str, content: bytes, reason: str) -> None:
    (model_folder / name).write_bytes(content)
    with pytest.raises(FormatError, match=reason):
        read(model_folder)


@pytest.mark.parametrize("name", ["config.json", "token_embedder.pkl", "word.dic", "char.dic"])
def test_a_missing_file_is_named(model_folder: Path, name: str) -> None:
    (model_folder / name).unlink()
    with pytest.raises(ElmoreError, match=name):
        read(model_folder)


def test_values_that_are_no_numbers_are_an_error(model_folder: Path) -> None:
    state = torch.load(model_folder / "encoder.pkl", weights_only=True)
    state["backward_layer_1.state_linearity.bias"][3] = torch.nan
    torch.save(state, model_folder / "encoder.pkl")
    with pytest.raises(
        FormatError, match=r"encoder.pkl.*backward_layer_1.state_linearity.bias contains nan or infinity"
    ):
        read(model_folder)


@pytest.mark.parametrize("names", [["encoder.pkl"], ["config.json", "model.safetensors"], []])
def test_other_folders_are_not_taken_for_such_models(names: list[str], tmp_path: Path) -> None:
    assert not ELMOFORMANYLANGS.detect(FileContainer({name: tmp_path / name for name in names}))
