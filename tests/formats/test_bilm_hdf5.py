import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray

from elmore.errors import CannotExpress, ElmoreError, FormatError
from elmore.formats import Checkpoint, ModelCard, read_checkpoint, write_checkpoint
from elmore.formats.card import ElmoSettings
from elmore.formats.storage.container import FileContainer, OverlayContainer, folder, open_container
from elmore.sources.tiny_random import tiny_checkpoint
from elmore.text.style import TokenizerConfig
from elmore.text.vocabulary import Vocabulary
from reference.as_checkpoint import as_checkpoint
from reference.published import PublishedModel, read_published
from reference.random_models import random_published
from reference.strategies import published_models

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat"]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "cell_clip": 3,
        "dim": 6,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 4,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 2},
        "filters": [[1, 3], [2, 2]],
        "max_characters_per_token": 10,
        "n_characters": 262,
        "n_highway": 2,
    },
}
FIRST_KERNEL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
WORDS = {"lstm": OPTIONS["lstm"]}


def save(path: Path, options: Any, weights: Mapping[str, NDArray[Any]], *, vocabulary: Any = (), **how: Any) -> Path:
    """A folder as people publish it, written by h5py."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "options.json").write_text(json.dumps(options))
    with h5py.File(path / "weights.hdf5", "w") as file:
        for name, values in weights.items():
            kind = values.dtype if values.dtype != np.float64 else np.float32
            file.create_dataset(name, data=values.astype(kind), **how)
    if vocabulary:
        (path / "vocab.txt").write_bytes("".join(f"{word}\n" for word in vocabulary).encode("utf-8"))
    return path


def published(options: Mapping[str, Any] = OPTIONS, **how: Any) -> PublishedModel:
    return random_published(1, options, **how)


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return save(tmp_path / "model", OPTIONS, published().weights)


def read(path: Path) -> Checkpoint:
    return read_checkpoint(open_container(path))


def edited(changes: Mapping[str, Any], options: Mapping[str, Any] = OPTIONS) -> dict[str, Any]:
    """Options with some set to other values, by dotted names; with `...` they are taken out."""
    copy: dict[str, Any] = json.loads(json.dumps(options))
    for name, value in changes.items():
        *sections, last = name.split(".")
        section = copy
        for part in sections:
            section = section[part]
        if value is ...:
            del section[last]
        else:
            section[last] = value
    return copy


def assert_is_twin(checkpoint: Checkpoint, model: PublishedModel) -> None:
    """The checkpoint is what the reference makes of the same files, with a translation of its own."""
    expected = as_checkpoint(model)
    assert checkpoint.config == expected.config
    assert checkpoint.tensors.keys() == expected.tensors.keys()
    for name, array in expected.tensors.items():
        assert np.array_equal(checkpoint.tensors[name], array), name
        assert checkpoint.tensors[name].flags.c_contiguous


# Reading


@pytest.mark.parametrize(
    ("name", "options", "weights"),
    [
        ("allennlp", "options.json", "lm_weights.hdf5"),
        ("bilm-tf", "options.json", "lm_weights.hdf5"),
        ("bilm-tf-checkpoint", "inference_options.json", "expected_weights.hdf5"),
        ("seqvec", "options.json", "weights.hdf5"),
        ("variants/no_projections", "options.json", "weights.hdf5"),
        ("variants/proj_clip_without_projection", "options.json", "weights.hdf5"),
        ("variants/three_layers_tight_clip", "options.json", "weights.hdf5"),
        ("variants/one_layer", "options.json", "weights.hdf5"),
        ("variants/word_input", "options.json", "weights.hdf5"),
        ("variants/unidirectional", "options.json", "weights.hdf5"),
        ("variants/unidirectional_one_layer_words", "options.json", "weights.hdf5"),
    ],
)
def test_a_model_of_the_original_programs_is_read_whole(fixtures: Path, name: str, options: str, weights: str) -> None:
    place = fixtures / name
    files = {"options.json": place / options, "weights.hdf5": place / weights}
    vocabulary = place / "vocab.txt"
    if vocabulary.exists():
        files["vocab.txt"] = vocabulary
    checkpoint = read_checkpoint(FileContainer(files))
    words = vocabulary if checkpoint.config.word_embedding_dim else None
    assert_is_twin(checkpoint, read_published(place / options, place / weights, words))
    assert checkpoint.card.format == "hdf5"


def test_a_folder_with_other_hdf5_files_and_a_zip_archive_hold_the_same_model(fixtures: Path) -> None:
    plain, packed = read(fixtures / "allennlp"), read(fixtures / "nlpl" / "nlpl_like.zip")
    assert plain.config == packed.config
    assert all(np.array_equal(tensor, packed.tensors[name]) for name, tensor in plain.tensors.items())
    assert plain.vocabulary == packed.vocabulary
    assert len(plain.vocabulary or ()) == 458
    assert packed.card.extra["algorithm"]["tool"] == "bilm-tf"
    assert packed.card.source == str(fixtures / "nlpl" / "nlpl_like.zip")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(published_models())
def test_any_model_that_bilm_tf_could_dump_is_read_whole(model: PublishedModel) -> None:
    with tempfile.TemporaryDirectory() as place:
        save(Path(place), model.options, model.weights)
        vocabulary = Path(place, "vocab.txt")
        vocabulary.write_bytes("".join(f"{word}\n" for word in model.vocabulary or ["<S>"]).encode("utf-8"))
        assert_is_twin(read(Path(place)), model)


def test_one_layer_may_have_the_names_of_many(tmp_path: Path) -> None:
    options = edited({"lstm.n_layers": 1})
    model = published(options)
    renamed = {
        name.replace("/LSTMCell", "/MultiRNNCell/Cell0/LSTMCell"): array for name, array in model.weights.items()
    }
    assert_is_twin(read(save(tmp_path, options, renamed)), model)


def test_projections_are_there_if_the_file_has_them_although_sizes_agree(tmp_path: Path) -> None:
    options = edited({"lstm.dim": 5, "lstm.projection_dim": 5})
    weights = dict(published(options).weights)
    rng = np.random.default_rng(0)
    weights |= {"CNN_proj/W_proj": rng.normal(size=(5, 5)), "CNN_proj/b_proj": rng.normal(size=5)}
    for cell in [name.removesuffix("/W_0") for name in weights if name.endswith("/W_0")]:
        weights[f"{cell}/W_P_0"] = rng.normal(size=(5, 5))
    config = read(save(tmp_path, options, weights)).config
    assert config.token_projection
    assert config.lstm_projection


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ("options.json", "weights.hdf5"),
        ("options.json", "model.hdf5"),
        ("options.json", "lm_weights.hdf5"),
        ("elmo_pt_options.json", "elmo_pt_weights.hdf5"),
        ("seqvec-options.json", "anything.h5"),
    ],
)
def test_files_are_found_by_the_names_people_gave_them(model_folder: Path, options: str, weights: str) -> None:
    (model_folder / "options.json").rename(model_folder / options)
    (model_folder / "weights.hdf5").rename(model_folder / weights)
    assert_is_twin(read(model_folder), published())


def test_a_vocabulary_laid_over_the_model_wins(model_folder: Path, tmp_path: Path) -> None:
    (model_folder / "vocab.txt").write_text("theirs\n")
    (tmp_path / "mine").write_text("mine\n")
    checkpoint = read_checkpoint(OverlayContainer(folder(model_folder), {"vocab.txt": tmp_path / "mine"}))
    assert checkpoint.vocabulary == Vocabulary(["mine"])


def test_a_damaged_catalogue_entry_keeps_nobody_from_the_model(model_folder: Path) -> None:
    (model_folder / "meta.json").write_text("{ not JSON")
    assert read(model_folder).card.extra == {}


def test_a_model_of_words_needs_its_vocabulary(tmp_path: Path) -> None:
    save(tmp_path, WORDS, published(WORDS, vocabulary=VOCABULARY).weights)
    with pytest.raises(FormatError, match="reads words, and its vocabulary is missing"):
        read(tmp_path)
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
    assert_is_twin(read(tmp_path), published(WORDS, vocabulary=VOCABULARY))


# Errors


def change_array(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        with h5py.File(path / "weights.hdf5", "r+") as file:
            values = change(file[name][()])
            del file[name]
            if values is not None:
                file[name] = values

    return edit


def change_options(changes: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda path: (path / "options.json").write_text(json.dumps(edited(changes))) and None


def add_array(name: str, *shape: int) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        with h5py.File(path / "weights.hdf5", "r+") as file:
            file[name] = np.zeros(shape, np.float32)

    return edit


def cut(path: Path) -> None:
    (path / "weights.hdf5").write_bytes((path / "weights.hdf5").read_bytes()[:-100])


def two_weight_files(path: Path) -> None:
    (path / "weights.hdf5").rename(path / "en_weights.hdf5")
    shutil.copy(path / "en_weights.hdf5", path / "pt_weights.hdf5")


def not_a_number(values: NDArray[Any]) -> NDArray[Any]:
    values[1, 0] = np.nan
    return values


WRONG = {
    "other options": (
        change_options({"lstm.dim": 7}),
        rf"weights\.hdf5: {FIRST_KERNEL} has shape \(8, 24\); options\.json \(lstm\.dim 7\) requires \(8, 28\)",
    ),
    "other filters": (
        change_options({"char_cnn.filters": [[1, 3], [3, 2]]}),
        r"CNN/W_cnn_1 has shape \(1, 2, 2, 2\); options\.json \(\[3, 2\] in char_cnn\.filters\) requires",
    ),
    "other rank": (change_array("char_embed", lambda a: a.ravel()), r"char_embed has shape \(522,\); .* \(261, 2\)"),
    "too few rows": (change_array("char_embed", lambda a: a[:200]), r"char_embed has shape \(200, 2\); options\.json"),
    "an array is missing": (
        change_array("CNN_proj/b_proj", lambda a: None),
        r"weights\.hdf5: CNN_proj/b_proj is missing, which options\.json requires; the arrays are CNN/W_cnn_0",
    ),
    "more layers in the options": (
        change_options({"lstm.n_layers": 3}),
        r"RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0 is missing",
    ),
    "a million layers in the options": (change_options({"lstm.n_layers": 10**9}), r"Cell2/LSTMCell/W_0 is missing"),
    "fewer layers in the options": (
        change_options({"lstm.n_layers": 1}),
        r"RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B, \S+ and 4 more belong to a larger model than that in options\.json",
    ),
    "fewer highways": (change_options({"char_cnn.n_highway": 1}), r"CNN_high_1/W_carry, .* belong to a larger model"),
    "another convolution": (add_array("CNN/W_cnn_2", 1, 1, 2, 3), r"CNN/W_cnn_2 belong to a larger model"),
    "not a number": (
        change_array("char_embed", not_a_number),
        r"weights\.hdf5: char_embed contains nan or infinity",
    ),
    "cut short": (cut, r"weights\.hdf5: the file is cut short: it has \d+ bytes of \d+; fetch it again"),
    "no JSON": (lambda path: (path / "options.json").write_text("{") and None, r"options\.json: not JSON: "),
    "a list": (lambda path: (path / "options.json").write_text("[]") and None, r"options\.json: found '\[\]' where"),
    "no dim": (change_options({"lstm.dim": ...}), r"options\.json: lstm\.dim is missing"),
    "no characters": (
        change_options({"char_cnn": ...}),
        r"options\.json: char_cnn is missing, so the model reads words",
    ),
    "two models": (
        two_weight_files,
        r"en_weights\.hdf5, pt_weights\.hdf5 could all be the file usually called weights",
    ),
    "a vocabulary of bytes": (
        lambda path: (path / "vocab.txt").write_bytes(b"a\n\xff\n") and None,
        r"vocab\.txt: not UTF-8 at byte 2",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(model_folder: Path, wrong: str) -> None:
    edit, message = WRONG[wrong]
    edit(model_folder)
    with pytest.raises(ElmoreError, match=message) as caught:
        read(model_folder)
    assert str(caught.value).startswith(f"{model_folder}: ")


# Writing


def test_what_the_options_cannot_say_is_not_written(tmp_path: Path) -> None:
    one_direction = read(save(tmp_path / "a", OPTIONS, published(bidirectional=False).weights))
    assert one_direction.config.directions == "forward"
    for reads in ("forward", "backward"):
        unsayable = replace(one_direction, config=replace(one_direction.config, directions=reads))
        with pytest.raises(CannotExpress, match="cannot describe a single direction; write the format folder"):
            write_checkpoint(unsayable, tmp_path / "b", format="hdf5")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(published_models())
def test_what_is_written_reads_back_bit_equal_or_is_refused(model: PublishedModel) -> None:
    with tempfile.TemporaryDirectory() as place:
        source = save(Path(place, "source"), model.options, model.weights, vocabulary=model.vocabulary)
        checkpoint = read(source)
        target = Path(place, "target")
        if checkpoint.config.num_directions == 1:
            with pytest.raises(CannotExpress, match="a single direction"):
                write_checkpoint(checkpoint, target, format="hdf5")
            assert not target.exists()
            return
        write_checkpoint(checkpoint, target, format="hdf5")
        again = read(target)
        assert again.config == checkpoint.config
        assert again.vocabulary == checkpoint.vocabulary
        assert all(np.array_equal(tensor, again.tensors[name]) for name, tensor in checkpoint.tensors.items())


@pytest.mark.parametrize("name", ["allennlp", "bilm-tf", "variants/three_layers_tight_clip", "variants/word_input"])
def test_the_files_of_the_original_programs_are_written_as_they_were(fixtures: Path, tmp_path: Path, name: str) -> None:
    write_checkpoint(read(fixtures / name), tmp_path / "written", format="hdf5")
    original = next(path for path in (fixtures / name).glob("*weights.hdf5"))
    with h5py.File(original) as theirs, h5py.File(tmp_path / "written" / "weights.hdf5") as ours:
        names: dict[str, list[str]] = {"theirs": [], "ours": []}
        theirs.visit(names["theirs"].append)
        ours.visit(names["ours"].append)
        assert names["theirs"] == names["ours"]
        for array in names["ours"]:
            if isinstance(ours[array], h5py.Dataset):
                assert ours[array].dtype == theirs[array].dtype == np.float32
                assert np.array_equal(ours[array][()], theirs[array][()])
    written = json.loads((tmp_path / "written" / "options.json").read_text())
    options = json.loads((fixtures / name / "options.json").read_text())
    assert written == {section: options[section] for section in written}


def test_one_layer_is_written_under_the_names_that_its_readers_know(tmp_path: Path) -> None:
    options = edited({"lstm.n_layers": 1})
    write_checkpoint(read(save(tmp_path / "a", options, published(options).weights)), tmp_path / "b", format="hdf5")
    with h5py.File(tmp_path / "b" / "weights.hdf5") as file:
        assert FIRST_KERNEL in file


def test_a_complete_forget_bias_is_written_so_that_its_readers_complete_it(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    complete = replace(checkpoint, config=replace(checkpoint.config, forget_bias=0.0))
    write_checkpoint(complete, tmp_path / "model", format="hdf5")
    again = read(tmp_path / "model")
    assert again.config.forget_bias == 1.0
    shift = checkpoint.tensors["lstm.0.bias"] - again.tensors["lstm.0.bias"]
    expected = np.zeros((4, 48))
    expected[2] = 1  # gates: input, candidate, forget, output
    assert np.allclose(shift, expected.reshape(-1), atol=1e-6)
    assert np.array_equal(checkpoint.tensors["lstm.0.bias"][:, :96], again.tensors["lstm.0.bias"][:, :96])


def test_what_is_left_behind_is_said(tmp_path: Path) -> None:
    whole = replace(
        tiny_checkpoint(),
        softmax=dict,
        start={"h": np.zeros((2, 2, 16), np.float32), "c": np.zeros((2, 2, 48), np.float32)},
    )
    with pytest.warns(UserWarning, match="cannot contain the softmax and the start state, so they were not written"):
        write_checkpoint(whole, tmp_path / "model", format="hdf5")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["elmore_card.json", "options.json", "weights.hdf5"]


def test_writing_replaces_a_model_but_nobody_elses_files(tmp_path: Path) -> None:
    write_checkpoint(tiny_checkpoint(), tmp_path / "model", format="hdf5")
    first = (tmp_path / "model" / "weights.hdf5").read_bytes()
    write_checkpoint(tiny_checkpoint(), tmp_path / "model", format="hdf5")
    assert (tmp_path / "model" / "weights.hdf5").read_bytes() == first
    (tmp_path / "model" / "thesis.tex").write_text("ten years of work")
    with pytest.raises(ElmoreError, match=r"thesis\.tex"):
        write_checkpoint(tiny_checkpoint(), tmp_path / "model", format="hdf5")


CARD = ModelCard(
    name="mine",
    license="CC0",
    text=TokenizerConfig(tokenizer_version=2, language="el", lowercase=True),
    source="here",
    format="hdf5",
    extra={"letters": {"years": [1790]}},
)


def test_write_keeps_the_card(tmp_path: Path) -> None:
    original = replace(CARD, format="folder")
    write_checkpoint(replace(tiny_checkpoint(), card=original), tmp_path / "model", format="hdf5")
    assert read(tmp_path / "model").card == CARD


@pytest.mark.filterwarnings("ignore:.*cannot contain")
def test_write_removes_from_the_card_what_is_not_written(tmp_path: Path) -> None:
    start = {"h": np.zeros((2, 2, 16), np.float32), "c": np.zeros((2, 2, 48), np.float32)}
    card = replace(CARD, start_state="warm", start_state_source="a text", elmo=ElmoSettings())
    write_checkpoint(replace(tiny_checkpoint(), card=card, start=start), tmp_path / "model", format="hdf5")
    assert read(tmp_path / "model").card == CARD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mood": "good"}, r"elmore_card\.json: unknown field mood"),
        ({"text": {"tokenizer_version": 3}}, r"elmore_card\.json: text\.tokenizer_version is 3"),
        ({"start_state": "warm"}, r"elmore_card\.json: start_state is 'warm', and this format contains no start state"),
    ],
)
def test_read_rejects_a_wrong_card(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write_checkpoint(tiny_checkpoint(), tmp_path / "model", format="hdf5")
    file = tmp_path / "model" / "elmore_card.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FormatError, match=message):
        read(tmp_path / "model")
