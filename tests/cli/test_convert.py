"""`elmore convert`: every model into every format that can express it."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore import Embedder, load
from elmore.text.style import TokenizerConfig

MODELS = [
    "allennlp",
    "allennlp/simple_tagger_best.th",
    "bilm-tf",
    "bilm-tf-checkpoint",
    "elmoformanylangs/elmo_char_only",
    "elmoformanylangs/elmo_word_char",
    "elmoformanylangs/elmo_word_only",
    "nlpl/nlpl_like.zip",
    "seqvec",
    "variants/no_projections",
    "variants/one_layer",
    "variants/proj_clip_without_projection",
    "variants/three_layers_tight_clip",
    "variants/unidirectional",
    "variants/unidirectional_one_layer_words",
    "variants/word_input",
]
NOT_IN_HDF5 = ("elmoformanylangs", "variants/unidirectional")


@pytest.mark.parametrize("model", MODELS)
def test_convert_preserves_weights_of_every_model(elmore, fixtures: Path, tmp_path: Path, model: str) -> None:
    ended = elmore("convert", fixtures / model, "-o", tmp_path / "out")
    assert ended == (0, "", f"wrote {tmp_path / 'out'}\n")
    assert load(tmp_path / "out").fingerprint() == load(fixtures / model).fingerprint()
    # The card remembers where the model came from.
    assert str(fixtures / model) in elmore("info", tmp_path / "out").out


@pytest.mark.filterwarnings("default")  # a softmax, or a task's mixes, are left out with a word
@pytest.mark.parametrize("model", [model for model in MODELS if not model.startswith(NOT_IN_HDF5)])
def test_convert_to_hdf5_preserves_vectors(elmore, fixtures: Path, tmp_path: Path, model: str) -> None:
    assert elmore("convert", fixtures / model, "-o", tmp_path / "out", "--format", "hdf5").code == 0
    assert {"options.json", "weights.hdf5"} <= {path.name for path in (tmp_path / "out").iterdir()}
    sentence = [["The", "cat", "Déjà", "<UNK>"]]
    ours, theirs = (
        Embedder.from_pretrained(path).encode(sentence, layers="all")[0]
        for path in (tmp_path / "out", fixtures / model)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.filterwarnings("default")
def test_convert_to_hdf5_names_what_it_omits(elmore, fixtures: Path, tmp_path: Path) -> None:
    ended = elmore("convert", fixtures / "bilm-tf-checkpoint", "-o", tmp_path / "out", "--format", "hdf5")
    assert "elmore: warning:" in ended.err
    assert "the softmax" in ended.err


@pytest.mark.parametrize(
    ("model", "unsaid"),
    [
        ("elmoformanylangs/elmo_word_char", "an alphabet of code points, both words and characters as input"),
        ("variants/unidirectional", "a single direction"),
    ],
)
def test_convert_to_hdf5_rejects_inexpressible_models(elmore, fixtures: Path, tmp_path: Path, model, unsaid) -> None:
    ended = elmore("convert", fixtures / model, "-o", tmp_path / "out", "--format", "hdf5")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "options.json and weights.hdf5 cannot describe" in ended.err
    assert unsaid in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["folder", "token-embeddings"])
def test_convert_replaces_files_only_with_force(elmore, fixtures: Path, tmp_path: Path, form: str) -> None:
    out, vocabulary = tmp_path / "out", fixtures / "allennlp" / "vocab_test.txt"
    command = ("convert", "tiny-random", "-o", out, "--format", form, "--vocabulary", vocabulary)
    assert elmore(*command).code == 0
    ended = elmore(*command)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.err.startswith(f"elmore: {out}: exists")
    assert elmore(*command, "--force").code == 0


def test_convert_does_not_overwrite_its_model(elmore, tmp_path: Path) -> None:
    elmore("convert", "tiny-random", "-o", tmp_path / "model")
    ended = elmore("convert", tmp_path / "model", "-o", tmp_path / "model", "--force")
    assert ended.code == 1
    assert ended.err.startswith(f"elmore: {tmp_path / 'model'}: is an input, and would be replaced")


def test_convert_reads_a_pair_of_files(elmore, fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "allennlp"
    pair = ("--options-file", folder / "options.json", "--weight-file", folder / "lm_weights.hdf5")
    assert elmore("convert", *pair, "-o", tmp_path / "out").code == 0
    assert load(tmp_path / "out").fingerprint() == load(folder).fingerprint()


def test_convert_warm_stores_a_start_state(elmore, tmp_path: Path, tiny: Embedder) -> None:
    text = tmp_path / "text.txt"
    text.write_text("I took a bow. He had a bow and arrow.\n")
    assert elmore("convert", "tiny-random", "-o", tmp_path / "warm", "--warm", text).code == 0
    assert (
        "start state  warm: the mean state after each of 2 sentences of text.txt"
        in elmore("info", tmp_path / "warm").out
    )
    warm = Embedder.from_pretrained(tmp_path / "warm")
    sentence = ["I", "took", "a", "bow", "."]
    assert np.abs(warm.encode([sentence])[0] - tiny.encode([sentence])[0]).max() > 1e-3
    # Fixed all the same: a sentence has the same vectors after any other.
    np.testing.assert_allclose(warm.encode([["a"], sentence])[1], warm.encode([sentence])[0], atol=1e-6)


def test_convert_writes_text_options_to_the_card(elmore, tmp_path: Path) -> None:
    told = ("--tokenizer", "whitespace", "--language", "de", "--lowercase", "--escape")
    elmore("convert", "tiny-random", "-o", tmp_path / "one", *told)
    expected = {
        "tokenizer": "whitespace",
        "tokenizer_version": 2,
        "language": "de",
        "lowercase": True,
        "escape": True,
    }
    assert json.loads((tmp_path / "one" / "card.json").read_text())["text"] == expected
    elmore("convert", tmp_path / "one", "-o", tmp_path / "two", "--no-lowercase")
    expected["lowercase"] = False
    assert json.loads((tmp_path / "two" / "card.json").read_text())["text"] == expected


def test_convert_to_hdf5_preserves_the_text_style(elmore, tmp_path: Path) -> None:
    style = ("--tokenizer-version", 2, "--language", "el", "--lowercase")
    assert elmore("convert", "tiny-random", "-o", tmp_path / "pair", "--format", "hdf5", *style).code == 0
    assert elmore("convert", tmp_path / "pair", "-o", tmp_path / "back").code == 0
    expected = TokenizerConfig(tokenizer_version=2, language="el", lowercase=True)
    options, weights = tmp_path / "pair" / "options.json", tmp_path / "pair" / "weights.hdf5"
    models = [load(tmp_path / "pair"), load(options), load(weights), load(options_file=options, weight_file=weights)]
    assert [model.card.text for model in [*models, load(tmp_path / "back")]] == [expected] * 5
    assert "tokenizer    moses version 2, el, lower case" in elmore("info", weights).out


def test_convert_to_token_embeddings_rejects_card_options(elmore, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n")
    command = ("convert", "tiny-random", "-o", tmp_path / "t.hdf5", "--format", "token-embeddings")
    ended = elmore(*command, "--vocabulary", tmp_path / "vocab.txt", "--language", "el", "--no-escape")
    assert ended == (
        1,
        "",
        "elmore: a file of token embeddings has no card; omit --language and --escape\n",
    )


def test_convert_card_copies_fields_of_a_file(elmore, tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text('license = "CC0"\ndescription = "Mine."\n[letters]\nyears = [1790, 1840]\n')
    assert elmore("convert", "tiny-random", "-o", tmp_path / "out", "--card", tmp_path / "card.toml").code == 0
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert (card["name"], card["license"], card["description"]) == ("tiny-random", "CC0", "Mine.")
    assert card["extra"]["letters"] == {"years": [1790, 1840]}


def test_convert_to_token_embeddings_equals_bilm_tf(elmore, fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "allennlp"
    vocabulary = ("--vocabulary", folder / "vocab_test.txt")
    ended = elmore("convert", folder, "-o", tmp_path / "t.hdf5", "--format", "token-embeddings", *vocabulary)
    assert ended.code == 0
    with h5py.File(tmp_path / "t.hdf5") as ours, h5py.File(folder / "elmo_token_embeddings.hdf5") as theirs:
        np.testing.assert_allclose(ours["embedding"][...], theirs["embedding"][...], atol=5e-6, rtol=0)


def test_convert_to_token_embeddings_reads_vocabulary_file(elmore, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nbow\n")
    arguments = ("convert", "tiny-random", "-o", tmp_path / "t.hdf5", "--format", "token-embeddings")
    ended = elmore(*arguments)
    assert (ended.code, "give a vocabulary file" in ended.err) == (1, True)
    assert elmore(*arguments, "--vocabulary", tmp_path / "vocab.txt").code == 0
    with h5py.File(tmp_path / "t.hdf5") as file:
        assert file["embedding"].shape == (4, 16)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--warm", "none.txt"], "none.txt: no such file"),
        (["--device", "cpu"], "--device is only for --warm and --format token-embeddings"),
        (["--warm", "empty.txt"], "empty.txt contains no sentence"),
        (["--language", "Deutsch"], "language is 'Deutsch'; it must be an ISO code"),
        (["--card", "none.toml"], "none.toml: no such file"),
        (["--card", "empty.txt", "-o", "full"], "full"),
        (["--card", "broken.toml"], "broken.toml: not TOML: "),
        (["--card", "typed.toml"], "typed.toml: license is 3; it must be a string"),
        (["--card", "dated.toml"], "dated.toml: put dates, times, inf and nan in quotes"),
        (["--card", "endless.toml"], "endless.toml: put dates, times, inf and nan in quotes"),
        (["--card", "slip.toml"], "slip.toml: unknown field nmae; the fields are name, description, license. Put"),
        (["--card", "twice.toml"], "twice.toml: unknown field licence; the fields are name, description, license. "),
        (["-o", "full"], "full"),
        (["-o", "none/out"], "none/out: the folder"),
    ],
)
def test_convert_prints_errors_in_one_line(elmore, tmp_path: Path, monkeypatch, options, complaint: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    files = {"broken": "license", "typed": "license = 3", "dated": "[a]\nmade = 1979-05-27", "endless": "x = inf"}
    for name, content in (files | {"twice": "license = 'MIT'\nlicence = 'MIT'", "slip": "nmae = 'x'"}).items():
        Path(f"{name}.toml").write_text(content)
    Path("full").mkdir()
    Path("full/precious.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    ended = elmore("convert", "tiny-random", "-o", "out", *options)
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert ended.err.startswith(f"elmore: {complaint}")
    assert sorted(tmp_path.rglob("*")) == before


def test_convert_does_not_overwrite_its_input_files(elmore, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    elmore("convert", "tiny-random", "-o", folder, "--format", "hdf5")
    pair = ("--options-file", folder / "options.json", "--weight-file", folder / "weights.hdf5")
    for source in ((folder / "options.json",), pair):
        ended = elmore("convert", *source, "-o", folder, "--format", "hdf5", "--force")
        assert ended.err.startswith(f"elmore: {folder}: is an input, and would be replaced")
    text = tmp_path / "text.txt"
    text.write_text("I took a bow.\n")
    ended = elmore("embed", text, "-o", folder / "weights.hdf5", *pair, "--force")
    assert ended.err.startswith(f"elmore: {folder / 'weights.hdf5'}: is an input, and would be replaced")
