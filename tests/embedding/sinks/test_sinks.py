from pathlib import Path

import pytest

from elmore.embedding.sinks import hdf5, numpy, parquet, sink_for, sink_of
from elmore.errors import FormatError, InputError


@pytest.mark.parametrize(
    ("name", "sink"),
    [("v.h5", hdf5), ("v.hdf5", hdf5), ("V.H5", hdf5), ("a.b/v.npz", numpy), (Path("v.parquet"), parquet)],
)
def test_the_end_of_a_name_chooses_the_sink(name: str | Path, sink) -> None:
    assert sink_for(name) is sink


@pytest.mark.parametrize("name", ["vectors", "vectors.txt", "vectors.h5.gz", ".npz"])
def test_other_names_are_refused_and_the_known_ends_named(name: str) -> None:
    with pytest.raises(InputError, match=r"\.h5, \.hdf5 \(HDF5\), \.parquet \(Parquet\), \.npz \(NumPy\)"):
        sink_for(name)


def test_the_first_bytes_of_a_file_choose_who_reads_it() -> None:
    assert sink_of(b"\x89HDF\r\n\x1a\n") is hdf5
    assert sink_of(b"PAR1....") is parquet
    assert sink_of(b"PK\x03\x04....") is numpy
    with pytest.raises(FormatError, match="not a file of vectors"):
        sink_of(b"\x89PNG\r\n\x1a\n")
