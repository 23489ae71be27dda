"""How far are Elmore's vectors from those of the original programs? Prints the table that the README has.

    python benchmarks/parity.py [FIXTURES]

FIXTURES holds models and the vectors that the original programs made of them; by default `shared/fixtures` beside the
repository, whose README tells how each was made. Results go to `results/parity.json`.
"""

import json
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import kernel_figures
import numpy as np
import torch
from numpy.typing import NDArray

from elmore import Embedder, __version__, load
from elmore.compat.allennlp import Elmo
from elmore.embedding.warm_start import embed_vocabulary
from elmore.text.sentence_reader import read_sentences

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "parity.json"
FIXTURES = HERE.parents[1] / "shared" / "fixtures"

Pairs = Iterator[tuple[NDArray[Any], NDArray[Any]]]  # ours and theirs


class Comparison(NamedTuple):
    """One row of the table."""

    program: str
    what: str
    pairs: Callable[[Path], Pairs]


def original_test_vectors(fixtures: Path) -> Pairs:
    for folder, sentences in (("bilm-tf", "lm_embeddings_sentences"), ("allennlp", "sentences")):
        columns = json.loads((fixtures / folder / f"{sentences}.json").read_text())
        rows = [columns[k][i].split() for i in range(10) for k in range(3)]
        model = Embedder.from_pretrained(fixtures / folder)
        vectors = model.encode(rows, state="carry", batch_size=3, layers="top")
        for k in range(3):
            with h5py.File(fixtures / folder / f"lm_embeddings_{k}.hdf5") as theirs:
                for i in range(10):
                    yield vectors[3 * i + k], np.concatenate(theirs[str(i)][...], axis=-1)


def tensorflow_checkpoint(fixtures: Path) -> Pairs:
    folder = fixtures / "bilm-tf-checkpoint"
    theirs = np.load(folder / "expected_embeddings.npz")
    sentences = json.loads((folder / "sentences.json").read_text())
    for number, vectors in enumerate(Embedder.from_pretrained(folder).encode(sentences, layers="all")):
        yield vectors, theirs[str(number)]
    with h5py.File(folder / "expected_token_embeddings.hdf5") as dumped:
        yield embed_vocabulary(load(folder)), dumped["embedding"][...]


def variants(fixtures: Path) -> Pairs:
    sentences = json.loads((fixtures / "variants" / "sentences.json").read_text())
    for folder in sorted(path for path in (fixtures / "variants").iterdir() if path.is_dir()):
        theirs = np.load(folder / "expected.npz")
        for number, vectors in enumerate(Embedder.from_pretrained(folder).encode(sentences, layers="all")):
            yield vectors, theirs[str(number)]


def allennlp_command(fixtures: Path) -> Pairs:
    model = Embedder.from_pretrained(fixtures / "allennlp")
    sentences = [line.split() for line in (fixtures / "allennlp-cli" / "sentences.txt").read_text().splitlines()]
    for name, layers, batch_size in (
        ("all", "all", 64),
        ("top", "top", 64),
        ("average", "average", 64),
        ("all_batch_size_2", "all", 2),
    ):
        with h5py.File(fixtures / "allennlp-cli" / f"{name}.hdf5") as theirs:
            ours = model.encode(sentences, layers=layers, state="carry", batch_size=batch_size)
            for number, vectors in enumerate(ours):
                yield vectors, theirs[str(number)][...]


def allennlp_module(fixtures: Path) -> Pairs:
    theirs = np.load(fixtures / "mixes" / "allennlp_0.9.npz")
    files = (str(fixtures / "allennlp" / "options.json"), str(fixtures / "allennlp" / "lm_weights.hdf5"))
    for name, norm, boundaries in (
        ("plain", False, False),
        ("plain_boundaries", False, True),
        ("norm", True, False),
        ("norm_boundaries", True, True),
    ):
        elmo = Elmo(*files, 2, do_layer_norm=norm, keep_sentence_boundaries=boundaries, dropout=0.0).eval()
        with torch.no_grad():
            for mix, scalars, gamma in ((0, (0.1, 0.3, 0.5), 1.1), (1, (0.2, -0.4, 0.6), 0.88)):
                scalar_mix = getattr(elmo, f"scalar_mix_{mix}")
                for parameter, value in zip(scalar_mix.scalar_parameters, scalars, strict=True):
                    parameter.fill_(value)
                scalar_mix.gamma.fill_(gamma)
            mixed = elmo(torch.from_numpy(theirs["char_ids"]))["elmo_representations"]
        for number, vectors in enumerate(mixed):
            yield vectors.numpy(), theirs[f"{name}_rep{number}"]


def seqvec(fixtures: Path) -> Pairs:
    model = Embedder.from_pretrained(fixtures / "seqvec")
    theirs = np.load(fixtures / "seqvec" / "expected.npz")
    for _, protein in read_sentences(fixtures / "seqvec" / "proteins.fasta", style=model.model.card.text):
        yield model.encode([protein.words], layers="all")[0], theirs[f"{protein.label.split('|')[1]}_layers"]


def simple_elmo(fixtures: Path) -> Pairs:
    model = Embedder.from_pretrained(fixtures / "nlpl" / "nlpl_like.zip")
    sentences = json.loads((fixtures / "simple_elmo" / "sentences.json").read_text())
    theirs = np.load(fixtures / "simple_elmo" / "vectors.npz")
    # Its warm-up runs the first chunk of three once and throws the result away.
    for warmup, stream in ((0, sentences), (1, sentences[:3] + sentences)):
        for layers in ("average", "top", "all"):
            vectors = model.encode(stream, state="carry", batch_size=3, layers=layers)[3 * warmup :]
            for number, words in enumerate(sentences):
                yield vectors[number], theirs[f"{layers}_warmup{warmup}"][number][..., : len(words), :]


def many_languages(fixtures: Path) -> Pairs:
    sentences = json.loads((fixtures / "elmoformanylangs" / "sentences.json").read_text())
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    rows = [sentences[number] for number in order]
    for name in ("elmo_word_char", "elmo_char_only", "elmo_word_only"):
        model = Embedder.from_pretrained(fixtures / "elmoformanylangs" / name)
        twice = model.encode(rows + rows, state="carry", batch_size=len(rows), layers="all")
        with h5py.File(fixtures / "elmoformanylangs" / name / "expected.hdf5") as theirs:
            for row, number in enumerate(order):
                yield twice[row], theirs[f"first_{number}"][...]
                yield twice[row + len(rows)], theirs[f"second_{number}"][...]


COMPARISONS = (
    Comparison("bilm-tf, AllenNLP", "their own test vectors, 60 sentences, state carried", original_test_vectors),
    Comparison("bilm-tf", "a TensorFlow checkpoint, read without TensorFlow", tensorflow_checkpoint),
    Comparison("bilm-tf", "seven variants of the network", variants),
    Comparison("AllenNLP 0.9", "files of `allennlp elmo`", allennlp_command),
    Comparison("AllenNLP 0.9", "`Elmo` with two mixes, with and without layer norm", allennlp_module),
    Comparison("AllenNLP 0.9", "proteins in SeqVec's layout", seqvec),
    Comparison("simple_elmo", "an NLPL zip, with and without its warm-up", simple_elmo),
    Comparison("ELMoForManyLangs", "words, characters, and both; state carried", many_languages),
)


def measure(comparison: Comparison, fixtures: Path) -> dict[str, Any]:
    """The row of one comparison."""
    largest, numbers = 0.0, 0
    for ours, theirs in comparison.pairs(fixtures):
        if ours.shape != theirs.shape:
            raise SystemExit(f"{comparison.what}: shapes {ours.shape} and {theirs.shape}")
        largest = max(largest, float(np.abs(ours - theirs).max()))
        numbers += ours.size
    return {"program": comparison.program, "what": comparison.what, "numbers": numbers, "largest_difference": largest}


def main() -> None:
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES
    if not given.is_dir():
        raise SystemExit(f"{given}: no such folder; name the one with the fixtures")
    found = [measure(comparison, given) for comparison in COMPARISONS]
    versions = {"elmore": __version__, "torch": torch.__version__, "numpy": np.__version__}
    machine = {"machine": platform.machine(), "system": platform.system(), "python": platform.python_version()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**versions, **machine, "rows": found}, indent=2) + "\n")
    print(kernel_figures.parity())


if __name__ == "__main__":
    main()
