import pickle
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import EmbeddedSentences, VectorType, writer_for
from elmore.embedding.vectors import open_vectors
from elmore.errors import ElmoreError, FormatError, InputError, NotFound

VECTOR_FORMATS = [".h5", ".npz", ".parquet"]
SENTENCES = [["The", "cat"], [], ["and", "/", "or"], ["same"], ["same"], ["end"]]

JOB = {
    "model": "tiny",
    "model_sha256": "a1",
    "input": ["text.txt"],
    "layers": "average",
    "compute": "float32",
    "text": {"language": "en"},
}

any_word = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)
utf8_word = st.text(st.characters(codec="utf-8"), max_size=5)


@pytest.fixture(params=VECTOR_FORMATS)
def written(request, write, tmp_path: Path) -> Path:
    return write(tmp_path / f"vectors{request.param}", SENTENCES)


@pytest.mark.parametrize("suffix", VECTOR_FORMATS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_whatever_is_written_is_read_back(suffix: str, data: st.DataObject) -> None:
    words = utf8_word if suffix == ".parquet" else any_word
    sentences = data.draw(st.lists(st.tuples(st.lists(words, max_size=4), st.none() | words), max_size=6))
    steps = data.draw(st.lists(st.integers(1, 10**6), min_size=len(sentences), max_size=len(sentences)))
    numbers = np.cumsum([0, *steps])[: len(sentences)].tolist()
    layers = data.draw(st.none() | st.integers(1, 3))
    dim = data.draw(st.integers(1, 5))
    dtype = data.draw(st.sampled_from(["float32", "float16"]))
    random_numbers = np.random.default_rng(0)
    shape = () if layers is None else (layers,)
    vectors = [random_numbers.standard_normal((*shape, len(words), dim)).astype(dtype) for words, _ in sentences]
    batch = EmbeddedSentences(
        numbers,
        [words for words, _ in sentences],
        [label for _, label in sentences],
        np.concatenate([np.zeros((*shape, 0, dim), dtype), *vectors], axis=-2),
        ["00" * 16] * len(sentences),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"vectors{suffix}"
        with Spool(Path(folder) / "s", {"job": "é"}, writer_for(path), VectorType(dim, layers, dtype)) as spool:
            spool.append(batch)
            spool.finish(path)
        with open_vectors(path) as stored:
            assert len(stored) == len(sentences)
            assert stored.numbers.tolist() == numbers
            assert stored.labels == [label or None for label in batch.labels]
            assert (stored.meta["dim"], stored.meta["layers"], stored.meta["dtype"]) == (dim, layers, dtype)
            assert stored.meta["job"] == {"job": "é"}
            order = list(range(len(sentences)))
            random.Random(0).shuffle(order)
            for i in order:
                assert stored.tokens(i) == batch.words[i]
                assert stored[i].dtype == dtype
                np.testing.assert_array_equal(stored[i], vectors[i])


def test_vectors_are_a_sequence(written: Path, vectors_of) -> None:
    with open_vectors(written) as vectors:
        assert len(vectors) == 6
        np.testing.assert_array_equal(vectors[-1], vectors_of(5, 1, None))
        np.testing.assert_array_equal(vectors[np.int64(2)], vectors_of(2, 3, None))
        assert [v.shape for v in vectors[1:5:2]] == [(0, 4), (1, 4)]
        assert [v.shape[0] for v in vectors] == [2, 0, 3, 1, 1, 1]
        assert vectors.tokens(-4) == ["and", "/", "or"]
        for beyond in (6, -7):
            with pytest.raises(IndexError, match="has 6 sentences"):
                vectors[beyond]


def test_arrays_are_the_callers_own(written: Path, vectors_of) -> None:
    with open_vectors(written) as vectors:
        first = vectors[0]
        first[:] = 0
        np.testing.assert_array_equal(vectors[0], vectors_of(0, 2, None))
    assert first.flags.c_contiguous


def test_threads_may_share_them(written: Path, vectors_of) -> None:
    with open_vectors(written) as vectors, ThreadPoolExecutor(8) as threads:
        places = [place for place in range(6) for _ in range(20)]
        for place, found in zip(places, threads.map(vectors.__getitem__, places), strict=True):
            np.testing.assert_array_equal(found, vectors_of(place, len(SENTENCES[place]), None))


def test_vectors_can_be_pickled(written: Path) -> None:
    with open_vectors(written) as vectors, pickle.loads(pickle.dumps(vectors)) as copy:
        assert copy.tokens(2) == vectors.tokens(2)


def test_vectors_pickled_with_a_relative_path_open_in_another_folder(
    written: Path, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_vectors(written.name) as vectors:
        assert vectors.paths == (Path(written.name),)
        monkeypatch.chdir("elsewhere")
        with pickle.loads(pickle.dumps(vectors)) as copy:
            assert copy.tokens(2) == vectors.tokens(2)


def test_a_closed_file_says_that_it_is_closed(written: Path) -> None:
    vectors = open_vectors(written)
    vectors.close()
    with pytest.raises(InputError, match="is closed"):
        vectors[0]
    with pytest.raises(InputError, match="is closed"):
        vectors.tokens(0)


@pytest.fixture
def shards(write, tmp_path: Path) -> list[Path]:
    """Eleven sentences, cut for three machines that use different formats."""
    sentences = [[f"s{number}"] * (number % 4) for number in range(11)]
    paths = []
    for shard, suffix in enumerate([".h5", ".parquet", ".npz"]):
        numbers = range(shard, 11, 3)
        path = tmp_path / f"part{shard}{suffix}"
        labels = [f"label {number}" for number in numbers]
        job = {**JOB, "shard": [shard + 1, 3]}
        paths.append(write(path, [sentences[n] for n in numbers], numbers=numbers, labels=labels, job=job))
    return paths


def test_shards_are_joined_in_the_order_of_the_input(shards: list[Path], vectors_of) -> None:
    with open_vectors(shards[::-1]) as vectors:
        assert vectors.numbers.tolist() == list(range(11))
        assert vectors.labels == [f"label {number}" for number in range(11)]
        for number in range(11):
            assert vectors.tokens(number) == [f"s{number}"] * (number % 4)
            np.testing.assert_array_equal(vectors[number], vectors_of(number, number % 4, None))


def test_a_pattern_names_all_shards(shards: list[Path]) -> None:
    with open_vectors(str(shards[0].parent / "part*")) as vectors:
        assert len(vectors) == 11
    with pytest.raises(NotFound, match=r"other\*"):
        open_vectors(str(shards[0].parent / "other*"))


def test_a_file_whose_name_looks_like_a_pattern_is_just_a_file(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors[1].npz", SENTENCES)
    with open_vectors(str(path)) as vectors:
        assert len(vectors) == 6


def test_sentences_of_a_shard_are_found_by_their_number(shards: list[Path]) -> None:
    with open_vectors(shards[1]) as vectors:
        assert vectors.tokens(vectors.index_of(7)) == ["s7"] * 3
        with pytest.raises(InputError, match="sentence 8 of the input is not in this file"):
            vectors.index_of(8)
        with pytest.raises(InputError, match="sentence 99"):
            vectors.index_of(99)


def test_vectors_have_the_earlier_names_of_methods(shards: list[Path]) -> None:
    with open_vectors(shards[1]) as vectors:
        assert vectors.words(vectors.find(7)) == vectors.tokens(vectors.index_of(7)) == ["s7"] * 3


def test_a_file_is_not_joined_with_itself(shards: list[Path]) -> None:
    with pytest.raises(InputError, match=r"sentence 0 is in .*part0.h5 and in .*part0.h5"):
        open_vectors([shards[0], shards[0], *shards[1:]])
    with pytest.raises(InputError, match="list of paths is empty"):
        open_vectors([])


@pytest.mark.parametrize(
    ("changes", "options", "complaint"),
    [
        ({"model": "large"}, {}, "model tiny and large"),
        ({"model_sha256": "b2"}, {}, "model_sha256 a1 and b2"),
        ({"input": ["other.txt"]}, {}, r"input \['text.txt'\] and \['other.txt'\]"),
        ({"layers": 2}, {}, "layers average and 2"),
        ({"text": {"language": "de"}}, {}, "text .*en.* and .*de"),
        ({"carried_rows": 64}, {}, "carried_rows None and 64"),
        ({"compute": "int8"}, {}, "compute float32 and int8"),
        ({}, {"dtype": "float16"}, "dtype float32 and float16"),
        ({"shard": [3, 4]}, {}, "parts: 3 and 4"),
        ({"shard": None}, {}, "parts: 3 and 1"),
    ],
)
def test_files_of_different_jobs_are_not_joined(
    shards: list[Path], write, tmp_path: Path, changes: dict, options: dict, complaint: str
) -> None:
    other = tmp_path / "other.npz"
    job = {**JOB, "shard": [3, 3], **changes}
    write(other, [["a"]], numbers=[100], job=job, **options)
    with pytest.raises(InputError, match=rf"part0.h5 and .*other.npz are of different jobs \({complaint}"):
        open_vectors([*shards[:2], other])


def test_a_missing_part_is_named_and_one_alone_may_be_opened(shards: list[Path]) -> None:
    with pytest.raises(InputError, match=r"the job has 3 parts, and 2/3 is missing"):
        open_vectors([shards[0], shards[2]])
    shards[0].unlink()
    shards[1].unlink()
    with pytest.raises(InputError, match="1/3, 2/3 is missing"):
        open_vectors(str(shards[2].parent / "part*"))
    with open_vectors(shards[2]) as vectors:
        assert len(pickle.loads(pickle.dumps(vectors))) == len(vectors) == 3


def test_a_file_is_known_by_its_content(written: Path) -> None:
    renamed = written.rename(written.with_suffix(".dat"))
    with open_vectors(renamed) as vectors:
        assert len(vectors) == 6


def test_what_is_no_file_of_vectors_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere.h5: no such file"):
        open_vectors(tmp_path / "nowhere.h5")
    with pytest.raises(InputError, match="is a folder"):
        open_vectors(tmp_path)
    text = tmp_path / "text.h5"
    for content in (b"", b"some text"):
        text.write_bytes(content)
        with pytest.raises(
            FormatError, match=r"text.h5: not a file of vectors: it is neither HDF5 nor Parquet nor NumPy"
        ):
            open_vectors(text)


def test_an_elmo_models_weights_are_not_taken_for_vectors(fixtures: Path) -> None:
    with pytest.raises(FormatError, match=r"lm_weights.hdf5"):
        open_vectors(fixtures / "allennlp" / "lm_weights.hdf5")


def test_a_newer_layout_is_refused_with_advice(write, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("elmore.embedding.vector_files.VERSION", 2)
    path = write(tmp_path / "vectors.npz", SENTENCES)
    monkeypatch.undo()
    with pytest.raises(FormatError, match=r"vectors.npz: written by a newer elmore \(layout 2.*update elmore"):
        open_vectors(path)


@pytest.mark.parametrize("suffix", VECTOR_FORMATS)
def test_a_file_that_is_cut_short_or_damaged_is_an_error_that_names_it(write, tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"vectors{suffix}", SENTENCES, labels=list("abcdef"))
    whole, luck = path.read_bytes(), random.Random(0)
    messages = []
    for trial in range(300):
        damaged = bytearray(whole)
        if trial % 3 == 0:
            del damaged[luck.randrange(len(damaged)) :]
        else:
            damaged[luck.randrange(len(damaged))] ^= 1 << luck.randrange(8)
        path.write_bytes(damaged)
        try:
            with open_vectors(path) as vectors:
                for i in range(len(vectors)):
                    vectors[i], vectors.tokens(i)
                _ = vectors.labels
        except ElmoreError as error:
            messages.append(str(error))
    assert all(path.name in message for message in messages)
    # A flip among the vectors changes a number, and is not seen.
    assert len(messages) > 100


def test_it_says_what_it_is_and_in_a_notebook_as_a_table(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.npz", SENTENCES, layers=2, job=JOB)
    with open_vectors(path) as vectors:
        assert repr(vectors) == f"StoredVectors({path}: 6 sentences, 2 x 4)"
        assert vectors._repr_html_().startswith("<table>")
        assert "<td>tiny</td>" in vectors._repr_html_()
