import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmore.engine.numpy_engine import NumpyEngine
from elmore.errors import FormatError
from elmore.formats import Checkpoint, read_checkpoint
from elmore.formats.allennlp import ALLENNLP
from elmore.formats.storage.container import FileContainer, folder, open_container
from packed_sentences import run_sentences, store_for
from reference.published import PublishedModel
from reference.random_models import random_published

OPTIONS: dict[str, Any] = {
    "char_cnn": {
        "activation": "tanh",
        "embedding": {"dim": 2},
        "filters": [[1, 3], [2, 2]],
        "max_characters_per_token": 12,
        "n_characters": 262,
        "n_highway": 2,
    },
    "lstm": {
        "cell_clip": 0.4,
        "dim": 6,
        "n_layers": 2,
        "proj_clip": 0.2,
        "projection_dim": 4,
        "use_skip_connections": True,
    },
}
PREFIX = "text_field_embedder.token_embedder_elmo._elmo."
TASK = {"model": {"text_field_embedder": {"elmo": {"type": "elmo_token_embedder", "options_file": "x/o.json"}}}}


def state_dict(model: PublishedModel, prefix: str = PREFIX, *, mixes: int = 1) -> dict[str, Tensor]:
    """The model as AllenNLP's modules would hold it after loading its weights.hdf5."""
    weights = {name: torch.tensor(values, dtype=torch.float32) for name, values in model.weights.items()}
    words, lstm = f"{prefix}_elmo_lstm._token_embedder.", f"{prefix}_elmo_lstm._elmo_lstm."
    table = weights["char_embed"]
    state = {f"{words}_char_embedding_weights": torch.cat([torch.zeros(1, table.shape[1]), table])}
    for n in range(len(model.options["char_cnn"]["filters"])):
        state[f"{words}char_conv_{n}.weight"] = weights[f"CNN/W_cnn_{n}"][0].permute(2, 1, 0)
        state[f"{words}char_conv_{n}.bias"] = weights[f"CNN/b_cnn_{n}"]
    for k in range(model.options["char_cnn"]["n_highway"]):
        high = {name: weights[f"CNN_high_{k}/{name}"] for name in ("W_transform", "W_carry", "b_transform", "b_carry")}
        state[f"{words}_highways._layers.{k}.weight"] = torch.cat([high["W_transform"].T, -high["W_carry"].T])
        state[f"{words}_highways._layers.{k}.bias"] = torch.cat([high["b_transform"], -high["b_carry"]])
    state[f"{words}_projection.weight"] = weights["CNN_proj/W_proj"].T
    state[f"{words}_projection.bias"] = weights["CNN_proj/b_proj"]
    for layer in range(model.options["lstm"]["n_layers"]):
        for number, direction in enumerate(("forward", "backward")):
            place = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            if f"{place}/W_0" not in weights:
                place = f"RNN_{number}/RNN/LSTMCell"
            i, j, f, o = weights[f"{place}/W_0"].T.chunk(4)
            kernel = torch.cat([i, f, j, o])
            i, j, f, o = weights[f"{place}/B"].chunk(4)
            size = kernel.shape[1] // 2
            cell = f"{lstm}{direction}_layer_{layer}."
            state[f"{cell}input_linearity.weight"] = kernel[:, :size]
            state[f"{cell}state_linearity.weight"] = kernel[:, size:]
            state[f"{cell}state_linearity.bias"] = torch.cat([i, f + 1, j, o])
            state[f"{cell}state_projection.weight"] = weights[f"{place}/W_P_0"].T
    for mix in range(mixes):
        state[f"{prefix}scalar_mix_{mix}.gamma"] = torch.tensor([1.5 + mix])
        for layer in range(model.options["lstm"]["n_layers"] + 1):
            state[f"{prefix}scalar_mix_{mix}.scalar_parameters.{layer}"] = torch.tensor([float(layer)])
    return state


@pytest.fixture(scope="module")
def model() -> PublishedModel:
    return random_published(0, OPTIONS)


def write(path: Path, files: Mapping[str, Any]) -> Path:
    """Dictionaries of tensors with torch.save, others as JSON."""
    for name, content in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        if name.endswith((".json", "options_file")):
            (path / name).write_text(json.dumps(content))
        else:
            torch.save(content, path / name)
    return path


def read(path: Path) -> Checkpoint:
    return read_checkpoint(open_container(path))


def vectors(checkpoint: Checkpoint, tokens: list[str]) -> Any:
    engine = NumpyEngine(checkpoint)
    return run_sentences(engine, store_for(engine, checkpoint), [tokens])[0][0]


def test_the_state_dict_of_a_trained_tagger_equals_the_weights_file_of_its_bilm(fixtures: Path) -> None:
    path = fixtures / "allennlp"
    tagger = read(path / "simple_tagger_best.th")
    pair = read_checkpoint(
        FileContainer({"options.json": path / "options.json", "weights.hdf5": path / "lm_weights.hdf5"})
    )
    assert tagger.card.format == "allennlp"
    assert tagger.config.forget_bias == 0
    forget = slice(2 * tagger.config.cell_dim, 3 * tagger.config.cell_dim)
    for name, expected in pair.tensors.items():
        if name.endswith(".bias") and name.startswith("lstm."):
            expected = expected.copy()  # noqa: PLW2901
            expected[:, forget] += 1
        assert np.array_equal(tagger.tensors[name], expected), name


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 3), st.integers(0, 2), st.sampled_from(["relu", "tanh"]), st.integers(0, 1000))
def test_random_models_give_the_vectors_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory, layers: int, highways: int, activation: str, seed: int
) -> None:
    options = {
        "char_cnn": OPTIONS["char_cnn"] | {"n_highway": highways, "activation": activation},
        "lstm": OPTIONS["lstm"] | {"n_layers": layers},
    }
    model = random_published(seed, options)
    path = write(tmp_path_factory.mktemp("model"), {"best.th": state_dict(model), "options.json": options})
    tokens = ["The", "Déjà", "<S>", "vu"]
    expected, _ = model.network().read(tokens)
    np.testing.assert_allclose(vectors(read(path), tokens), expected, atol=5e-6)


def test_an_archive_is_read_with_the_options_it_was_given(model: PublishedModel, tmp_path: Path) -> None:
    files = {
        "config.json": TASK,
        "weights.th": state_dict(model),
        "fta/model.text_field_embedder.elmo.options_file": OPTIONS,
        "files_to_archive.json": {"model.text_field_embedder.elmo.options_file": "x/o.json"},
    }
    source = write(tmp_path, files)
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        for name in files:
            archive.add(source / name, arcname=name)
    checkpoint = read(tmp_path / "model.tar.gz")
    assert (checkpoint.config.cell_clip, checkpoint.config.projection_clip) == (0.4, 0.2)
    assert checkpoint.config.characters is not None
    assert (checkpoint.config.characters.max_characters, checkpoint.config.characters.activation) == (12, "tanh")
    assert "assumed" not in checkpoint.card.extra


@pytest.mark.parametrize(
    "beside",
    [
        {"config.json": TASK, "o.json": OPTIONS},
        {"options.json": OPTIONS},
        {"config.json": {}, "elmo_2x4_options.json": OPTIONS},
    ],
    ids=["named by config.json", "options.json", "any options"],
)
def test_options_beside_the_state_dict_are_found(model: PublishedModel, tmp_path: Path, beside: dict[str, Any]) -> None:
    assert read(write(tmp_path, {"best.th": state_dict(model), **beside})).config.cell_clip == 0.4


@pytest.mark.parametrize("name", ["best.th", "model_state_epoch_3.th", "elmo.pt", "pytorch_model.bin"])
def test_a_bare_file_gets_the_clips_of_the_published_models_and_says_so(
    model: PublishedModel, tmp_path: Path, name: str
) -> None:
    checkpoint = read(write(tmp_path, {name: state_dict(model)}) / name)
    assert (checkpoint.config.cell_clip, checkpoint.config.projection_clip) == (3.0, 3.0)
    assert checkpoint.config.characters is not None
    assert checkpoint.config.characters.filters == ((1, 3), (2, 2))
    assumed = {"cell_clip": 3.0, "projection_clip": 3.0, "max_characters": 50, "activation": "relu"}
    assert checkpoint.card.extra["assumed"] == assumed
    json.dumps(checkpoint.card.to_dict())  # plain enough for the card's file


@pytest.mark.parametrize("prefix", ["", "_elmo.", "module.model.elmo."])
def test_the_bilm_is_found_under_any_prefix(model: PublishedModel, tmp_path: Path, prefix: str) -> None:
    state = state_dict(model, prefix) | {"tag_projection_layer.weight": torch.ones(2, 2)}
    checkpoint = read(write(tmp_path, {"best.th": {"epoch": 3, "state": state}}))
    assert checkpoint.card.extra["prefix"] == f"state.{prefix}_elmo_lstm."


def test_a_bilm_saved_by_itself_is_read(model: PublishedModel, tmp_path: Path) -> None:
    state = {name.removeprefix("_elmo_lstm."): tensor for name, tensor in state_dict(model, "", mixes=0).items()}
    checkpoint = read(write(tmp_path, {"bilm.pt": state}) / "bilm.pt")
    assert checkpoint.card.extra["prefix"] == ""
    assert checkpoint.mixes is None


def test_the_mixes_of_the_task_come_along(model: PublishedModel, tmp_path: Path) -> None:
    checkpoint = read(write(tmp_path, {"best.th": state_dict(model, mixes=2)}))
    assert checkpoint.mixes is not None
    assert {name: values.tolist() for name, values in checkpoint.mixes.items()} == {
        "mixes.0.scalars": [0, 1, 2],
        "mixes.0.gamma": 1.5,
        "mixes.1.scalars": [0, 1, 2],
        "mixes.1.gamma": 2.5,
    }
    assert checkpoint.card.extra["mixes"][1] == {"scalars": [0, 1, 2], "gamma": 2.5}
    assert "elmo" not in checkpoint.card.extra


def test_layer_normalisation_in_the_configuration_is_kept_with_the_mixes(model: PublishedModel, tmp_path: Path) -> None:
    task = {"model": {"layers": [{"elmo": {"do_layer_norm": True}}]}}
    checkpoint = read(write(tmp_path, {"best.th": state_dict(model), "config.json": task}))
    assert checkpoint.card.extra["elmo"] == {"mixes": [{"normalize": "masked-batch"}]}


def test_several_bilms_are_an_error_that_names_their_prefixes(model: PublishedModel, tmp_path: Path) -> None:
    write(tmp_path, {"best.th": state_dict(model, "first.") | state_dict(model, "second.")})
    with pytest.raises(
        FormatError, match=r"best.th: contains several biLMs, with the prefixes first\._elmo_lstm\., second\._elmo_l"
    ):
        read(tmp_path)


def test_a_state_dict_of_something_else_says_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path, {"pytorch_model.bin": {"bert.pooler.weight": torch.ones(2)}})
    with pytest.raises(FormatError, match=r"pytorch_model.bin: contains no biLM: .*the tensors are bert.pooler.weight"):
        read(tmp_path / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("_token_embedder.char_conv_1.bias", None, "char_conv_1.bias is missing"),
        ("_token_embedder._projection.weight", None, "_projection.weight is missing"),
        ("_elmo_lstm.forward_layer_0.state_projection.weight", None, "state_projection.weight is missing"),
        ("_elmo_lstm.backward_layer_1.state_linearity.bias", None, "state_linearity.bias is missing"),
        ("_elmo_lstm.backward_layer_1.state_linearity.bias", torch.ones(3), r"bias has shape \(3,\).*requires \(24,\)"),
        (
            "_token_embedder._char_embedding_weights",
            torch.ones(262),
            r"has shape \(262,\); the configuration requires \(any, any\)",
        ),
        ("_token_embedder._char_embedding_weights", torch.ones(90, 2), "n_characters is 89"),
        ("_token_embedder.char_conv_0.weight", None, "filters is empty"),
        ("_token_embedder._projection.bias", torch.ones(4, dtype=torch.int64), "bias has the type int64"),
        ("_token_embedder._projection.bias", torch.full((4,), torch.inf), "contains nan or infinity"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    model: PublishedModel, tmp_path: Path, name: str, change: Tensor | None, reason: str
) -> None:
    state: dict[str, Tensor | None] = {**state_dict(model), f"{PREFIX}_elmo_lstm.{name}": change}
    write(tmp_path, {"best.th": {key: tensor for key, tensor in state.items() if tensor is not None}})
    with pytest.raises(FormatError, match=f"best.th: .*{reason}"):
        read(tmp_path)


def test_options_of_another_model_are_an_error_that_names_both_files(model: PublishedModel, tmp_path: Path) -> None:
    other = OPTIONS | {"lstm": OPTIONS["lstm"] | {"dim": 7}}
    write(tmp_path, {"best.th": state_dict(model), "options.json": other})
    with pytest.raises(FormatError, match=r"best.th, by options.json: .*forward_layer_0.*has shape"):
        read(tmp_path)
    write(tmp_path, {"elmo_options.json": OPTIONS})
    with pytest.raises(FormatError, match=r"options.json.* describe different biLMs"):
        read(tmp_path)
    (tmp_path / "elmo_options.json").unlink()
    write(tmp_path, {"options.json": {"lstm": OPTIONS["lstm"]}})
    with pytest.raises(FormatError):
        read(tmp_path)


def test_a_configuration_that_is_no_json_is_named(model: PublishedModel, tmp_path: Path) -> None:
    write(tmp_path, {"weights.th": state_dict(model)})
    (tmp_path / "config.json").write_text('{"a": ' * 5000)
    with pytest.raises(FormatError, match=r"config\.json: not JSON"):
        read(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ["options.json", "weights.hdf5"],
        ["options.json", "lm_weights.hdf5", "simple_tagger_best.th"],
        ["encoder.pkl", "token_embedder.pkl", "config.json"],
        ["config.json", "model.safetensors", "old.bin"],
        ["model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001", "notes.pkl"],
        [],
    ],
)
def test_folders_of_other_formats_are_left_to_them(names: list[str], tmp_path: Path) -> None:
    assert not ALLENNLP.detect(FileContainer({name: tmp_path / name for name in names}))


def test_a_folder_with_one_state_dict_is_recognised(tmp_path: Path) -> None:
    assert ALLENNLP.detect(FileContainer({"elmo.th": tmp_path, "vocab.txt": tmp_path}))


def test_a_cut_file_is_an_error(model: PublishedModel, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(state_dict(model), buffer, _use_new_zipfile_serialization=False)
    for length in range(0, len(buffer.getvalue()), 997):
        (tmp_path / "best.th").write_bytes(buffer.getvalue()[:length])
        with pytest.raises(FormatError, match=r"best\.th: "):
            read_checkpoint(folder(tmp_path))
