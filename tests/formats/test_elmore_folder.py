import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from elmore.config import CharacterConfig, Direction, ModelConfig, tensor_shapes
from elmore.errors import CannotExpress, ElmoreError, FormatError
from elmore.formats import Checkpoint, ModelCard, read_checkpoint, write_checkpoint
from elmore.formats.arrays import Floats, StoredArray
from elmore.formats.storage.container import OverlayContainer, folder, open_container
from elmore.model import Model
from elmore.sources.tiny_random import tiny_checkpoint
from elmore.text.style import TokenizerConfig
from elmore.text.vocabulary import Vocabulary
from one_way import DIRECTIONS, one_way_tensors

MARKS = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
# Every part a checkpoint can have, and words that are hard to keep.
WORDS = ["<bos>", "<eos>", "<oov>", " blank ", "\u3000", "\r", "", "naïve", "!!!MAXTERMID", "twice", "twice", "𝄞", ""]
CONFIG = ModelConfig(
    characters=CharacterConfig(alphabet="codepoints", n_characters=9, embedding_dim=2, filters=((1, 3), (2, 2))),
    vocab_size=len(WORDS),
    word_embedding_dim=3,
    vector_dim=4,
    cell_dim=6,
    cell_clip=0.1,
    projection_clip=None,
    bos_token="<bos>",
    eos_token="<eos>",
    unk_token="<oov>",
)


def whole() -> Checkpoint:
    random = np.random.default_rng(3)

    def draw(*shape: int) -> Floats:
        return random.standard_normal(shape, dtype=np.float32)

    return Checkpoint(
        config=CONFIG,
        tensors={name: draw(*shape) for name, shape in tensor_shapes(CONFIG).items()},
        vocabulary=Vocabulary(WORDS),
        character_vocabulary={letter: row for row, letter in enumerate(["\n", "é", "\u2028", *MARKS])},
        start={"h": draw(2, 2, 4), "c": draw(2, 2, 6)},
        softmax=lambda: {"weight": draw(7, 4), "bias": draw(7)},
        mixes={"mixes.0.scalars": draw(3), "mixes.0.gamma": np.array(1.5, np.float32)},
        card=ModelCard(
            name="whole",
            description="Für alle Fälle, 東京 \ud800",
            start_state="warm",
            start_state_source="a text",
            text=TokenizerConfig(tokenizer="whitespace", tokenizer_version=2, language="tr", lowercase=True),
            extra={"nested": {"numbers": [1, 2.5, None]}},
        ),
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_checkpoint(whole(), tmp_path / "model")
    return tmp_path / "model"


def read(path: Path) -> Checkpoint:
    return read_checkpoint(open_container(path))


def assert_equal(ours: Mapping[str, StoredArray] | None, theirs: Mapping[str, StoredArray] | None) -> None:
    assert ours is not None
    assert theirs is not None
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(tensor, theirs[name]) for name, tensor in ours.items())


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_every_part_reads_back_as_it_was(written: Path, packed: bool) -> None:
    path = Path(shutil.make_archive(str(written), "zip", written.parent, written.name)) if packed else written
    original, again = whole(), read(path)
    assert again.config == original.config
    assert_equal(again.tensors, original.tensors)
    assert again.vocabulary == original.vocabulary
    assert again.character_vocabulary == original.character_vocabulary
    assert_equal(again.start, original.start)
    assert_equal(again.mixes, original.mixes)
    assert original.softmax is not None
    assert again.softmax is not None
    assert_equal(again.softmax(), original.softmax())
    assert again.card == replace(original.card, source=str(path), format="folder")


def test_a_bare_model_has_only_the_files_it_needs(tmp_path: Path) -> None:
    write_checkpoint(tiny_checkpoint(), tmp_path / "model")
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "card.json",
        "config.json",
        "model.safetensors",
    ]
    again = read(tmp_path / "model")
    assert (again.vocabulary, again.character_vocabulary, again.start, again.softmax, again.mixes) == (None,) * 5
    assert again.card == tiny_checkpoint().card


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_model_that_reads_one_way_reads_back_as_it_was(tmp_path: Path, direction: Direction) -> None:
    both = tiny_checkpoint()
    config, tensors = replace(both.config, directions=direction), one_way_tensors(both.tensors, direction)
    write_checkpoint(replace(both, config=config, tensors=tensors), tmp_path / "model")
    again = read(tmp_path / "model")
    assert again.config == config
    assert_equal(again.tensors, tensors)


def test_the_same_model_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    write_checkpoint(whole(), tmp_path / "again")
    files = sorted(file.name for file in written.iterdir())
    assert len(files) == 8
    for name in files:
        assert (written / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_model_that_was_read_is_written_with_the_same_bytes(written: Path, tmp_path: Path) -> None:
    write_checkpoint(read(written), tmp_path / "again")
    for name in ("config.json", "model.safetensors", "vocabulary.txt", "softmax.safetensors", "characters.json"):
        assert (written / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_softmax_is_not_touched_until_it_is_asked_for(written: Path) -> None:
    (written / "softmax.safetensors").write_bytes(b"damaged")
    softmax = read(written).softmax
    assert softmax is not None
    with pytest.raises(FormatError, match=rf"{written}: softmax\.safetensors: damaged"):
        softmax()


def test_a_model_stays_what_it_was_when_its_file_changes(written: Path) -> None:
    checkpoint = read(written)
    content = (written / "model.safetensors").read_bytes()
    with (written / "model.safetensors").open("r+b") as file:
        file.seek(-1000, 2)
        file.write(bytes(1000))
    assert (written / "model.safetensors").read_bytes() != content
    assert_equal(checkpoint.tensors, whole().tensors)


def test_tensors_that_share_their_memory_are_written_apart(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    shared = np.ones((2, 16, 4 * 48), np.float32)
    tensors = {**checkpoint.tensors, "lstm.0.input": shared, "lstm.1.input": shared, "lstm.0.recurrent": shared}
    tensors["words.projection.weight"] = np.ones((48, 16), np.float32).T
    write_checkpoint(replace(checkpoint, tensors=tensors), tmp_path / "model")
    assert_equal(read(tmp_path / "model").tensors, tensors)


def test_a_vocabulary_laid_over_the_model_wins(tmp_path: Path) -> None:
    write_checkpoint(tiny_checkpoint(), tmp_path / "model")
    (tmp_path / "mine").write_text("mine\n")
    checkpoint = read_checkpoint(OverlayContainer(folder(tmp_path / "model"), {"vocab.txt": tmp_path / "mine"}))
    assert checkpoint.vocabulary == Vocabulary(["mine"])


# Errors


def change_json(name: str, **changes: Any) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        values = json.loads((path / name).read_text()) | changes
        (path / name).write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))

    return edit


def change_tensors(name: str, change: Callable[[dict[str, Floats]], Mapping[str, Floats]]) -> Callable[[Path], None]:
    return lambda path: save_file(dict(change(load_file(path / name))), path / name)


def cut(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-5]) and None


def remove(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


MODEL = CONFIG.to_dict()
WRONG = {
    "a newer version": (
        change_json("config.json", version=3),
        r"config\.json: its version is 3, and this Elmore reads",
    ),
    "an unknown field": (change_json("config.json", colour=1), r"config\.json: unknown field colour"),
    "an unknown field of the model": (
        change_json("config.json", model=MODEL | {"depth": 3}),
        r"config\.json: unknown field model.depth; known are characters, ",
    ),
    "no model": (change_json("config.json", model=...), r"config\.json: the field model, .* is missing"),
    "a model in words": (
        change_json("config.json", model="large"),
        r"config\.json: model is 'large'; it must be a table",
    ),
    "a million layers": (
        change_json("config.json", model=MODEL | {"lstm_layers": 10**9}),
        r"model\.safetensors: has \d+ tensors, too few for the layers in config\.json",
    ),
    "another size": (
        change_json("config.json", model=MODEL | {"word_embedding_dim": 4}),
        r"words\.table has shape \(13, 3\); the configuration requires \(13, 4\)",
    ),
    "no JSON": (lambda path: (path / "config.json").write_text("{") and None, r"config\.json: not JSON"),
    "weights cut short": (cut("model.safetensors"), r"model\.safetensors: damaged, or not a safetensors file \("),
    "no weights": (remove("model.safetensors"), r"model\.safetensors is missing; there are card\.json, "),
    "a tensor is missing": (
        change_tensors("model.safetensors", lambda t: {k: v for k, v in t.items() if k != "lstm.1.bias"}),
        r"arrays are missing: lstm\.1\.bias",
    ),
    "a tensor too many": (
        change_tensors("model.safetensors", lambda t: t | {"extra": np.zeros(1, np.float32)}),
        r"the configuration has no arrays extra",
    ),
    "half precision": (
        change_tensors("model.safetensors", lambda t: {k: v.astype(np.float16) for k, v in t.items()}),
        r"model\.safetensors: .* has the type float16; float32 is required",
    ),
    "not a number": (
        change_tensors("model.safetensors", lambda t: t | {"lstm.0.bias": np.full((2, 24), np.inf, np.float32)}),
        r"model\.safetensors: lstm\.0\.bias contains nan or infinity",
    ),
    "another state": (
        change_tensors("state.safetensors", lambda t: t | {"h": np.zeros((2, 2, 5), np.float32)}),
        r"state\.safetensors: h has shape \(2, 2, 5\); the configuration requires \(2, 2, 4\)",
    ),
    "half a state": (
        change_tensors("state.safetensors", lambda t: {"h": t["h"]}),
        r"state\.safetensors: arrays are missing: c",
    ),
    "no state, and yet warm": (
        remove("state.safetensors"),
        r"state\.safetensors is missing, which the start state in card\.json",
    ),
    "no characters": (remove("characters.json"), r"characters\.json is missing; there are"),
    "characters beyond the table": (
        change_json("characters.json", x=9),
        r"characters\.json: 'x' has the row 9; the table",
    ),
    "characters in words": (change_json("characters.json", x="9"), r"characters\.json: 'x' has the row 9"),
    "too many words": (
        lambda path: (path / "vocabulary.txt").write_text("<bos>\n<eos>\n" * 7) and None,
        r"the vocabulary has 14 words and the word table 13 rows",
    ),
    "no vocabulary": (remove("vocabulary.txt"), r"its vocabulary is missing"),
    "words in other bytes": (
        lambda path: (path / "vocabulary.txt").write_bytes(b"\xff\n") and None,
        r"vocabulary\.txt: not UTF-8 at byte 0",
    ),
    "an unknown field of the card": (change_json("card.json", mood="good"), r"card\.json: unknown field mood"),
    "an unknown tokeniser": (
        change_json("card.json", text={"tokenizer": "bpe"}),
        r"card\.json: text\.tokenizer is 'bpe'",
    ),
    "a tokeniser of the future": (
        change_json("card.json", text={"tokenizer_version": 3}),
        r"card\.json: text\.tokenizer_version is 3; it must be from 1 to 2; a newer elmore may know it",
    ),
}


def test_a_card_that_does_not_name_the_version_of_its_tokeniser_means_the_first(written: Path) -> None:
    change_json("card.json", text={"tokenizer": "moses"})(written)
    assert read(written).card.text.tokenizer_version == 1


def test_folder_of_version_1_reads_former_field_names(written: Path) -> None:
    original = read(written)
    config = json.loads((written / "config.json").read_text())["model"]
    card = json.loads((written / "card.json").read_text())
    names = {"n_words": "vocab_size", "word_dim": "word_embedding_dim", "reads": "directions"}
    names |= {"begin": "bos_token", "end": "eos_token", "unknown": "unk_token"}
    former = config | {old: config.pop(new) for old, new in names.items()}
    former["characters"]["n_highways"] = former["characters"].pop("num_highways")
    (written / "config.json").write_text(json.dumps({"format": "elmore", "version": 1, "model": former}))
    card |= {"licence": card.pop("license"), "start_state_from": card.pop("start_state_source")}
    (written / "card.json").write_text(json.dumps(card))
    again = read(written)
    assert (again.config, again.card) == (original.config, original.card)
    assert Model(again).fingerprint() == Model(original).fingerprint()


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(written: Path, wrong: str) -> None:
    edit, message = WRONG[wrong]
    edit(written)
    with pytest.raises(ElmoreError, match=message) as caught:
        read(written)
    assert str(caught.value).startswith(f"{written}: ")


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {"weight": t["weight"]},
        lambda t: t | {"bias": t["bias"][:-1]},
        lambda t: t | {"weight": t["weight"][:, :-1].copy()},
    ],
)
def test_a_softmax_that_does_not_fit_is_named(written: Path, change: Callable[[Any], Mapping[str, Floats]]) -> None:
    change_tensors("softmax.safetensors", change)(written)
    softmax = read(written).softmax
    assert softmax is not None
    with pytest.raises(FormatError, match=r"softmax\.safetensors: "):
        softmax()


# Writing


def test_writing_replaces_an_older_model_whole(written: Path) -> None:
    write_checkpoint(tiny_checkpoint(), written)
    assert sorted(file.name for file in written.iterdir()) == ["card.json", "config.json", "model.safetensors"]


def test_a_model_can_be_written_where_it_was_read(written: Path) -> None:
    checkpoint = read(written)
    write_checkpoint(replace(checkpoint, card=replace(checkpoint.card, name="renamed")), written)
    again = read(written)
    assert again.card.name == "renamed"
    assert again.softmax is not None
    assert again.softmax()["weight"].shape == (7, 4)


@pytest.mark.parametrize("name", ["thesis.tex", "config.json"])
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"model_type": "bert"}')
    with pytest.raises(ElmoreError, match="is not a model folder of Elmore, and not empty"):
        write_checkpoint(tiny_checkpoint(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_our_folder_with_a_strangers_file_in_it_is_left_alone(written: Path) -> None:
    (written / "thesis.tex").write_text("ten years of work")
    with pytest.raises(ElmoreError, match=r"thesis\.tex"):
        write_checkpoint(tiny_checkpoint(), written)
    assert read(written).config == CONFIG


def test_a_failure_in_the_middle_leaves_what_was_there(written: Path) -> None:
    def no_more_paper() -> Mapping[str, Floats]:
        raise FormatError("the softmax is damaged")

    with pytest.raises(FormatError, match="the softmax is damaged"):
        write_checkpoint(replace(tiny_checkpoint(), softmax=no_more_paper), written)
    assert read(written).config == CONFIG
    assert [file.name for file in written.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("word", ["two\nlines", "\ud800"])
def test_a_word_that_no_file_can_hold_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(CannotExpress, match=r"vocabulary\.txt cannot contain"):
        write_checkpoint(replace(tiny_checkpoint(), vocabulary=Vocabulary(["a", word])), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_does_not_fit_itself_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="arrays are missing"):
        write_checkpoint(replace(tiny_checkpoint(), tensors={}), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
