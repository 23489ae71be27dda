import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmore.embedding.vector_files import hdf5, numpy, parquet, reader_for, writer_for
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError, InputError


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("v.h5", hdf5.Writer),
        ("v.hdf5", hdf5.Writer),
        ("V.H5", hdf5.Writer),
        ("a.b/v.npz", numpy.Writer),
        (Path("v.parquet"), parquet.Writer),
    ],
)
def test_writer_for_chooses_by_the_suffix(name: str | Path, writer) -> None:
    assert writer_for(name) is writer


@pytest.mark.parametrize("name", ["vectors", "vectors.txt", "vectors.h5.gz", ".npz"])
def test_writer_for_rejects_other_suffixes_and_lists_the_known(name: str) -> None:
    with pytest.raises(InputError, match=r"\.h5, \.hdf5 \(HDF5\), \.parquet \(Parquet\), \.npz \(NumPy\)"):
        writer_for(name)


def test_writer_for_allennlp_layout_requires_hdf5() -> None:
    with pytest.raises(InputError, match=r"v\.npz: the layout of AllenNLP is one of HDF5 files"):
        writer_for("v.npz", "allennlp")


def test_reader_for_chooses_by_the_first_bytes() -> None:
    assert reader_for(b"\x89HDF\r\n\x1a\n") is hdf5.read
    assert reader_for(b"PAR1....") is parquet.read
    assert reader_for(b"PK\x03\x04....") is numpy.read
    with pytest.raises(FormatError, match="not a file of vectors"):
        reader_for(b"\x89PNG\r\n\x1a\n")


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import EmbeddedSentences, VectorType, writer_for
from elmore.errors import ElmoreError

folder, target, layout = Path(sys.argv[1]), Path(sys.argv[1]) / sys.argv[2], sys.argv[3]
batches = [
    EmbeddedSentences([number], [["word"] * 5], [None], np.ones((5, 64), np.float32), [f"{number:032x}"])
    for number in range(300)
]

def embed():
    with Spool(folder / "s", {}, writer_for(target, layout), VectorType(64)) as spool:
        for batch in batches[spool.num_sentences :]:
            spool.append(batch)
            if batch.numbers[0] % 50 == 0:
                spool.commit()
        spool.finish(target)

for size in map(int, sys.argv[4:]):
    # No file may become larger than this, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        embed()
    except ElmoreError as error:
        print(error)
    assert not target.exists()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
embed()
assert not (folder / "s").exists()
"""


# The vectors have 384,000 bytes. The last sizes of HDF5 and NumPy fail when the rest of the file is written.
SIZES = [20_000, 60_000, 200_000, 380_000, 384_000]


@pytest.mark.skipif(os.name != "posix", reason="there is no limit on the size of files here")
@pytest.mark.parametrize(
    ("name", "layout", "sizes"),
    [
        ("v.h5", "default", [*SIZES, 388_500, 392_000, 396_000]),
        ("v.h5", "allennlp", [*SIZES, 388_500, 400_000]),
        ("v.npz", "default", [*SIZES, 388_500, 392_000, 396_000]),
        ("v.parquet", "default", SIZES),
    ],
)
def test_writer_on_a_full_disk_gives_an_error_and_no_file(
    tmp_path: Path, name: str, layout: str, sizes: list[int]
) -> None:
    command = [sys.executable, "-c", FILL_THE_DISK, str(tmp_path), name, layout, *map(str, sizes)]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.count("cannot be written: File too large") == len(sizes)
    with open_vectors(tmp_path / name) as vectors:
        assert len(vectors) == 300
        assert all((vectors[i] == 1).all() for i in range(300))
