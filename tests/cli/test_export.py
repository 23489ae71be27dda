"""`elmore export`: a model as an ONNX file."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from elmore import Embedder


def test_export_writes_the_models_vectors(elmore, tmp_path: Path, tiny: Embedder) -> None:
    path = tmp_path / "model.onnx"
    assert elmore("export", "tiny-random", "-o", path) == (0, "", f"wrote {path}\n")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    words = ["I", "took", "a", "bow", "."]
    ids = np.full((1, 5, 50), 260)
    for row, word in zip(ids[0], words, strict=True):
        row[: len(word) + 2] = [258, *word.encode(), 259]
    (layers,) = session.run(["layers"], {"character_ids": ids, "lengths": np.array([5])})
    np.testing.assert_allclose(layers[:, 0], tiny.encode([words], layers="all")[0], rtol=1e-5, atol=1e-5)


def test_export_accepts_any_model(elmore, fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "allennlp"
    pair = ("--options-file", folder / "options.json", "--weight-file", folder / "lm_weights.hdf5")
    assert elmore("export", *pair, "-o", tmp_path / "model.onnx").code == 0


def test_export_replaces_a_file_only_with_force(elmore, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("years of work")
    ended = elmore("export", "tiny-random", "-o", path)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.err.startswith(f"elmore: {path}: exists")
    assert path.read_text() == "years of work"
    assert elmore("export", "tiny-random", "-o", path, "--force").code == 0


def test_export_never_replaces_an_input(elmore, tmp_path: Path) -> None:
    vocabulary = tmp_path / "words.onnx"
    vocabulary.write_text("<S>\n</S>\n<UNK>\n")
    ended = elmore("export", "tiny-random", "--vocabulary", vocabulary, "-o", vocabulary, "--force")
    assert ended.err.startswith(f"elmore: {vocabulary}: is an input")
    assert vocabulary.read_text() == "<S>\n</S>\n<UNK>\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model", "ends in .onnx"),
        ("model.h5", "ends in .onnx"),
        ("missing/model.onnx", "does not exist; create it first"),
    ],
)
def test_export_names_a_path_that_cannot_be_written(elmore, tmp_path: Path, name: str, said: str) -> None:
    ended = elmore("export", "tiny-random", "-o", tmp_path / name)
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert said in ended.err
    assert not list(tmp_path.iterdir())


def test_export_without_onnx_names_the_extra(elmore, tmp_path: Path, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("elmore.integrations.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    ended = elmore("export", "tiny-random", "-o", tmp_path / "model.onnx")
    assert ended == (1, "", "elmore: an export to ONNX requires onnx. Install it with: pip install 'elmore[onnx]'\n")
