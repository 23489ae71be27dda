"""`elmore embed --layout allennlp` writes what `allennlp elmo` of AllenNLP 0.9.0 wrote: same names, same numbers.

The files in `shared/fixtures/allennlp-cli` were made by that program; the README there lists the flags.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore import open_vectors
from elmore.cli import main

SAME = {"atol": 5e-6, "rtol": 0}


@pytest.mark.parametrize(
    ("theirs", "flags"),
    [
        ("all", ["--layers", "all"]),
        ("top", ["--layers", "top"]),
        ("average", ["--layers", "average"]),
        ("all_batch_size_2", ["--layers", "all", "--batch-size", "2"]),
        ("all_forget_sentences", ["--layers", "all", "--forget-sentences"]),
        ("all_use_sentence_keys", ["--layers", "all", "--use-sentence-keys"]),
        # bilm-tf's own dump runs one sentence per call, and has no index.
        ("bilm_tf_dump_bilm_embeddings", ["--layers", "all", "--batch-size", "1", "--forget-sentences"]),
    ],
)
def test_embed_with_allennlp_layout_equals_allennlp_command(
    fixtures: Path, tmp_path: Path, theirs: str, flags: list[str]
) -> None:
    ours = tmp_path / "vectors.hdf5"
    text = fixtures / "allennlp-cli" / "sentences.txt"
    pair = (
        "--options-file",
        fixtures / "allennlp/options.json",
        "--weight-file",
        fixtures / "allennlp/lm_weights.hdf5",
    )
    with pytest.raises(SystemExit) as end:
        main([str(part) for part in ("-q", "embed", text, "-o", ours, *pair, "--layout", "allennlp", *flags)])
    assert not end.value.code
    with h5py.File(ours) as here, h5py.File(fixtures / "allennlp-cli" / f"{theirs}.hdf5") as there:
        assert list(here) == list(there)
        for name, dataset in there.items():
            assert (here[name].shape, here[name].dtype) == (dataset.shape, dataset.dtype)
            if name == "sentence_to_index":
                assert json.loads(here[name][0]) == json.loads(dataset[0])
            else:
                np.testing.assert_allclose(here[name][...], dataset[...], **SAME)


def test_open_vectors_reads_files_of_allennlp(fixtures: Path) -> None:
    lines = (fixtures / "allennlp-cli" / "sentences.txt").read_text().splitlines()
    with open_vectors(fixtures / "allennlp-cli" / "all.hdf5") as vectors:
        assert [vectors.tokens(i) for i in range(3)] == [line.split() for line in lines]
        assert [array.shape for array in vectors] == [(3, 7, 32), (3, 3, 32), (3, 10, 32)]
