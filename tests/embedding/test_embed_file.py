"""Embedding files in one call."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import Embedder, embed_file, load, open_vectors
from elmore.embedding.embed_file import EmbedArguments, EmbedJob
from elmore.errors import InputError, InputWarning, NotFound


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("I took a bow. Me too.\n")
    return path


def test_its_options_are_those_of_a_job() -> None:
    assert EmbedArguments.__annotations__.keys() == {field.name for field in fields(EmbedJob)} - {"sources"}


@pytest.mark.parametrize("name", ["v.h5", "v.npz", "v.parquet"])
def test_the_file_holds_what_encode_gives(text: Path, tiny: Embedder, name: str) -> None:
    target = text.with_name(name)
    summary = embed_file(text, target, model=tiny, layers=-1, dtype=np.float16)
    assert summary == (2, 8, 0)
    with open_vectors(target) as vectors:
        assert vectors[0].dtype == np.float16
        assert (vectors.meta["job"]["input"], vectors.meta["job"]["layers"]) == (["text.txt"], 2)
        for i, sentence in enumerate(["I took a bow.", "Me too."]):
            np.testing.assert_allclose(vectors[i], tiny.encode(sentence, layers="top"), atol=2e-3)


@pytest.mark.parametrize("model", ["tiny-random", load("tiny-random"), lambda: Embedder.from_pretrained("tiny-random")])
def test_a_model_can_be_named_given_or_made_when_needed(text: Path, model) -> None:
    assert embed_file(str(text), str(text.with_name("v.npz")), model=model).sentences == 2


@pytest.mark.parametrize("model", ["tiny-random", load("tiny-random")])
def test_embed_file_computes_in_the_chosen_number_type(text: Path, tiny: Embedder, model) -> None:
    embed_file(text, text.with_name("v.npz"), model=model, compute="bfloat16", device="cpu")
    with open_vectors(text.with_name("v.npz")) as vectors:
        assert vectors.meta["job"]["compute"] == "bfloat16"
        exact = tiny.encode("I took a bow.")
        np.testing.assert_allclose(vectors[0], exact, atol=0.05)
        assert np.abs(vectors[0] - exact).max() > 1e-4


def test_embed_file_rejects_compute_and_device_that_an_embedder_contradicts(text: Path, tiny: Embedder) -> None:
    target = text.with_name("v.npz")
    with pytest.raises(InputError, match="compute is 'int8', but the given Embedder computes in float32"):
        embed_file(text, target, model=tiny, compute="int8")
    with pytest.raises(InputError, match="device is for a model given by name"):
        embed_file(text, target, model=tiny, device="cpu")
    with pytest.raises(InputError, match="the device 'gpu' cannot be used here"):
        embed_file(text, target, model="tiny-random", device="gpu")
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]
    assert embed_file(text, target, model=tiny, compute="float32").sentences == 2


def test_embed_file_parts_of_another_compute_are_not_joined(text: Path) -> None:
    parts = [text.with_name(f"{number}.npz") for number in (1, 2)]
    for number, compute in ((1, "float32"), (2, "bfloat16")):
        embed_file(text, parts[number - 1], model="tiny-random", compute=compute, shard=(number, 2))
    with pytest.raises(InputError, match=r"are of different jobs \(compute float32 and bfloat16\)"):
        open_vectors(parts)


def test_what_is_wrong_is_said_before_a_model_is_made(text: Path) -> None:
    def make() -> Embedder:
        return pytest.fail("made a model")

    with pytest.raises(NotFound, match=r"none\.txt: no such file"):
        embed_file(text.with_name("none.txt"), text.with_name("v.npz"), model=make)
    with pytest.raises(InputError, match="no input; name files"):
        embed_file([], text.with_name("v.npz"), model=make)
    with pytest.raises(InputError, match="state is 'warm'"):
        embed_file(text, text.with_name("v.npz"), model=make, state="warm")
    with pytest.raises(InputError, match=r"text\.txt: vectors are written to"):
        embed_file(text, text, model=make)


def test_what_is_passed_over_in_a_folder_is_said(text: Path, tiny: Embedder) -> None:
    text.with_name("notes.docx").write_text("not read")
    with pytest.warns(InputWarning, match="input is skipped: 1 skipped file, 1 repeated file$"):
        summary = embed_file([text.parent, text], text.with_name("v.npz"), model=tiny)
    assert summary.sentences == 2


def test_an_input_is_never_overwritten(text: Path) -> None:
    source = text.rename(text.with_name("text.npz"))
    for force in (False, True):
        with pytest.raises(InputError, match=r"text\.npz: is an input, and would be replaced"):
            embed_file(source, source, model="tiny-random", force=force)
    assert source.read_text() == "I took a bow. Me too.\n"


def test_only_files_of_vectors_are_replaced_unless_forced(text: Path, tiny: Embedder) -> None:
    target = text.with_name("v.h5")
    target.write_bytes(b"years of work")
    with pytest.raises(InputError, match=r"v\.h5: is there already, and not Elmore's; .*--force"):
        embed_file(text, target, model=tiny)
    assert target.read_bytes() == b"years of work"
    embed_file(text, target, model=tiny, force=True)
    embed_file(text, target, model=tiny, layers="top")
    with open_vectors(target) as vectors:
        assert vectors.meta["job"]["layers"] == 2


def test_a_file_in_allennlps_layout_may_be_anybodys(text: Path, tiny: Embedder) -> None:
    target = text.with_name("v.h5")
    embed_file(text, target, model=tiny, layout="allennlp")
    with pytest.raises(InputError, match="not Elmore's"):
        embed_file(text, target, model=tiny, layout="allennlp")
    embed_file(text, target, model=tiny, layout="allennlp", force=True)
    with open_vectors(target) as vectors:
        assert vectors.words(1) == ["Me", "too", "."]


def test_another_programs_arrays_are_not_taken_for_ours(text: Path, tiny: Embedder) -> None:
    target = text.with_name("v.npz")
    np.savez(target, vectors=np.zeros((2, 3)))
    with pytest.raises(InputError, match="not Elmore's"):
        embed_file(text, target, model=tiny)


def test_the_language_can_be_another_than_the_models(text: Path, tiny: Embedder) -> None:
    text.write_text("C'est l'homme.\n")
    embed_file(text, text.with_name("en.npz"), model=tiny)
    embed_file(text, text.with_name("fr.npz"), model=tiny, language="fr")
    embed_file(text, text.with_name("blanks.npz"), model=tiny, tokenizer="whitespace")
    words = [open_vectors(text.with_name(f"{name}.npz")).words(0) for name in ("en", "fr", "blanks")]
    assert words == [["C", "'est", "l", "'homme", "."], ["C'", "est", "l'", "homme", "."], ["C'est", "l'homme."]]


def test_a_job_shows_what_is_not_as_usual() -> None:
    job = EmbedJob(sources=("a.txt",), layers="top", shard=(1, 2))
    assert repr(job) == "EmbedJob(sources=('a.txt',), layers='top', shard=(1, 2))"


def test_other_weights_under_the_same_name_are_another_model(text: Path, monkeypatch) -> None:
    parts = []
    for number in (1, 2):
        model = load("tiny-random")
        if number == 2:
            with torch.no_grad():
                model.network.words.projection.weight[0, 0] += 1e-3
        parts.append(text.with_name(f"{number}.npz"))
        embed_file(text, parts[-1], model=model, shard=(number, 2))
    with pytest.raises(InputError, match=r"are of different jobs \(model_sha256"):
        open_vectors(parts)


@pytest.mark.parametrize("edited", ["She sat down.\nCats purr.\n", "She sat down.\nCats meow.\nDogs bark.\n"])
def test_parts_of_another_text_of_the_same_name_and_size_are_of_another_job(
    text: Path, tiny: Embedder, edited: str
) -> None:
    given = "He sat downs.\nCats purr.\n" if len(edited) == 25 else "She sat down.\nCats purr.\nDogs bark.\n"
    assert len(given) == len(edited)
    parts = [text.with_name(f"{number}.npz") for number in (1, 2)]
    for number, written in enumerate((given, edited), start=1):
        text.write_text(written)
        embed_file(text, parts[number - 1], model=tiny, shard=(number, 2))
    with pytest.raises(InputError, match=r"are of different jobs \(input_digest"):
        open_vectors(parts)
    text.write_text(given)
    embed_file(text, parts[1], model=tiny, shard=(2, 2))
    assert len(open_vectors(parts)) == len(given.splitlines())
