import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray

from elmore.errors import ElmoreError, FormatError
from elmore.formats import Checkpoint, read_checkpoint
from elmore.formats.storage.container import FileContainer, folder
from elmore.formats.tensorflow import TENSORFLOW
from fixture_variants import VARIANTS
from reference.published import PublishedModel
from reference.random_models import random_published
from reference.strategies import published_models
from reference.tensorflow_bundle import as_array, write_checkpoint_files

OPTIONS: dict[str, Any] = {
    "bidirectional": True,
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 2},
        "filters": [[1, 3], [2, 2]],
        "max_characters_per_token": 10,
        "n_characters": 261,
        "n_highway": 1,
    },
    "lstm": {"cell_clip": 3, "dim": 6, "n_layers": 2, "proj_clip": 3, "projection_dim": 4},
}


def variables(options: Mapping[str, Any] = OPTIONS, *, words: int = 7, seed: int = 0) -> dict[str, NDArray[Any]]:
    """What bilm-tf has for such options, with random values."""
    model = random_published(seed, options)
    weights = {as_variable(name): values.astype(np.float32) for name, values in model.weights.items()}
    size = options["lstm"]["projection_dim"]
    softmax = {"lm/softmax/W": np.arange(words * size).reshape(words, size), "lm/softmax/b": np.arange(words)}
    weights |= {name: as_array(values) for name, values in softmax.items()}
    noted = {f"{name}/Adagrad": np.ones_like(values) for name, values in weights.items()}
    return weights | noted | {"global_step": as_array(7), "train_perplexity": as_array(0)}


def as_variable(dumped: str) -> str:
    """TensorFlow's name for what bilm-tf dumps under this one."""
    for theirs, ours in (("LSTMCell", "lstm_cell"), ("MultiRNNCell", "multi_rnn_cell"), ("/Cell", "/cell_")):
        dumped = dumped.replace(theirs, ours)
    for theirs, ours in (("/W_P_0", "/projection/kernel"), ("/W_0", "/kernel"), ("/B", "/bias"), ("/RNN/", "/rnn/")):
        dumped = dumped.replace(theirs, ours) if dumped.startswith("RNN_") else dumped
    return f"lm/{dumped}"


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    write_checkpoint_files(tmp_path, variables())
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    return tmp_path


def read(path: Path) -> Checkpoint:
    return read_checkpoint(folder(path))


def assert_same_model(ours: Checkpoint, theirs: Checkpoint) -> None:
    assert ours.config == theirs.config
    assert ours.tensors.keys() == theirs.tensors.keys()
    for name, tensor in theirs.tensors.items():
        assert np.array_equal(ours.tensors[name], tensor), name


def test_the_checkpoint_that_bilm_tf_wrote_equals_its_own_dump(fixtures: Path) -> None:
    path = fixtures / "bilm-tf-checkpoint"
    ours = read(path)
    dump = {"options.json": path / "inference_options.json", "weights.hdf5": path / "expected_weights.hdf5"}
    assert_same_model(ours, read_checkpoint(FileContainer(dump)))
    assert ours.card.format == "tensorflow"
    assert ours.vocabulary is not None
    assert len(ours.vocabulary) == 32
    assert ours.softmax is not None
    assert {name: tuple(tensor.shape) for name, tensor in ours.softmax().items()} == {"weight": (32, 8), "bias": (32,)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_read_as_from_the_dump_that_bilm_tf_made(fixtures: Path, tmp_path: Path, variant: str) -> None:
    source = fixtures / "variants" / variant
    weights: dict[str, NDArray[Any]] = {}
    with h5py.File(source / "weights.hdf5") as dump:
        dump.visititems(lambda name, item: weights.update({name: item[...]}) if hasattr(item, "shape") else None)
    write_checkpoint_files(tmp_path, {as_variable(name): values for name, values in weights.items()})
    for name in ("options.json", "vocab.txt"):
        if (source / name).exists():
            shutil.copy(source / name, tmp_path)
    assert_same_model(read(tmp_path), read(source))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(published_models())
def test_a_random_model_is_the_same_as_checkpoint_and_as_weights(
    tmp_path_factory: pytest.TempPathFactory, model: PublishedModel
) -> None:
    as_checkpoint, as_weights = tmp_path_factory.mktemp("checkpoint"), tmp_path_factory.mktemp("weights")
    weights = {name: values.astype(np.float32) for name, values in model.weights.items()}
    write_checkpoint_files(as_checkpoint, {as_variable(name): values for name, values in weights.items()})
    with h5py.File(as_weights / "weights.hdf5", "w") as file:
        for name, values in weights.items():
            file[name] = values
    for path in (as_checkpoint, as_weights):
        (path / "options.json").write_text(json.dumps(model.options))
        (path / "vocab.txt").write_text("".join(f"{word}\n" for word in model.vocabulary), encoding="utf-8")
    try:
        theirs = read(as_weights)
    except ElmoreError:
        with pytest.raises(ElmoreError):
            read(as_checkpoint)
        return
    assert_same_model(read(as_checkpoint), theirs)


def test_a_path_of_another_machine_in_the_file_checkpoint_does_no_harm(model_folder: Path) -> None:
    plain = read(model_folder)
    for path in ("/home/somebody/models/model.ckpt-7", "C:\\\\models\\\\model.ckpt-7"):
        (model_folder / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
        assert_same_model(read(model_folder), plain)


def test_the_file_checkpoint_chooses_and_without_it_the_newest_is_taken(model_folder: Path) -> None:
    write_checkpoint_files(model_folder, variables(seed=1), prefix="model.ckpt-10")
    newest = read(model_folder)  # the last one written is named
    (model_folder / "checkpoint").unlink()
    assert_same_model(read(model_folder), newest)
    (model_folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert not np.array_equal(read(model_folder).tensors["lstm.0.bias"], newest.tensors["lstm.0.bias"])


def test_the_softmax_is_read_when_it_is_called(model_folder: Path) -> None:
    data = model_folder / "model.ckpt-7.data-00000-of-00001"
    softmax = read(model_folder).softmax
    assert softmax is not None
    assert softmax()["weight"].shape == (7, 4)
    assert softmax()["bias"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    data.unlink()
    with pytest.raises(ElmoreError, match="data-00000-of-00001"):
        softmax()


def test_a_damaged_softmax_does_not_stand_in_the_way_of_the_model(model_folder: Path) -> None:
    data = model_folder / "model.ckpt-7.data-00000-of-00001"
    content = data.read_bytes()
    rows = as_array(range(7)).tobytes()  # they open both the weight and the bias
    data.write_bytes(content.replace(rows, bytes(len(rows))))
    softmax = read(model_folder).softmax
    assert softmax is not None
    with pytest.raises(FormatError, match="lm/softmax/W: its values do not match their checksum"):
        softmax()


def test_a_softmax_shared_with_the_input_is_the_word_table(tmp_path: Path) -> None:
    options = {"lstm": OPTIONS["lstm"], "share_embedding_softmax": True}
    words = ["<S>", "</S>", "<UNK>", "cat"]
    table = as_array(np.arange(16).reshape(4, 4))
    lstm = {name: values for name, values in variables().items() if name.startswith("lm/RNN_")}
    write_checkpoint_files(tmp_path, lstm | {"lm/embedding": table, "lm/softmax/b": as_array([1, 2, 3, 4])})
    (tmp_path / "options.json").write_text(json.dumps(options))
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    checkpoint = read(tmp_path)
    assert checkpoint.softmax is not None
    assert np.array_equal(checkpoint.softmax()["weight"], checkpoint.tensors["words.table"])


def test_what_the_optimiser_noted_is_left_aside(model_folder: Path) -> None:
    checkpoint = read(model_folder)
    assert len(checkpoint.tensors) == 1 + 4 + 4 + 2 + 8


def change(path: Path, **changes: Any) -> None:
    """Write the checkpoint anew with some variables changed; None leaves one out."""
    changed = variables() | {f"lm/{name.replace('__', '/')}": values for name, values in changes.items()}
    write_checkpoint_files(path, {name: values for name, values in changed.items() if values is not None})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"char_embed": None}, "char_embed is missing"),
        ({"CNN__b_cnn_1": as_array([1, 2, 3])}, r"CNN/b_cnn_1 has shape \(3,\); options.json.*requires \(2,\)"),
        ({"CNN__b_cnn_1": np.array([1, 2])}, "lm/CNN/b_cnn_1 has the type int64; float32 is required"),
        ({"CNN__b_cnn_1": as_array([np.nan, 2])}, "CNN/b_cnn_1 contains nan or infinity"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(model_folder: Path, changes: dict[str, Any], reason: str) -> None:
    change(model_folder, **changes)
    with pytest.raises(FormatError, match=f"model.ckpt-7: {reason}"):
        read(model_folder)


def test_half_precision_is_read_as_float32(model_folder: Path) -> None:
    change(model_folder, CNN__b_cnn_1=np.array([1, 2], dtype=np.float16))
    assert read(model_folder).tensors["words.convolutions.1.bias"].dtype == np.float32


def test_a_checkpoint_of_something_else_says_what_it_holds(model_folder: Path) -> None:
    write_checkpoint_files(model_folder, {"dense/kernel": as_array([1])})
    with pytest.raises(FormatError, match=r"model.ckpt-7.index: contains no model of bilm-tf.*dense/kernel"):
        read(model_folder)


def test_missing_files_are_named(model_folder: Path) -> None:
    (model_folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-8"\n')
    with pytest.raises(FormatError, match=r"checkpoint names model.ckpt-8, but model.ckpt-8.index is missing"):
        read(model_folder)
    (model_folder / "checkpoint").write_text("")
    with pytest.raises(FormatError, match="checkpoint: the line that begins with model_checkpoint_path is missing"):
        read(model_folder)
    (model_folder / "checkpoint").unlink()
    (model_folder / "options.json").unlink()
    with pytest.raises(ElmoreError, match=r"options\.json is missing"):
        read(model_folder)


def test_a_cut_data_file_is_an_error_that_names_the_variable(model_folder: Path) -> None:
    data = model_folder / "model.ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"model\.ckpt-7: lm/CNN/.* it is cut short"):
        read(model_folder)


@pytest.mark.parametrize("names", [["faiss.index"], ["options.json", "weights.hdf5"], ["checkpoint"], []])
def test_other_folders_are_not_taken_for_checkpoints(names: list[str], tmp_path: Path) -> None:
    assert not TENSORFLOW.detect(FileContainer({name: tmp_path / name for name in names}))
