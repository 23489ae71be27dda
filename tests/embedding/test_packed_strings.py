import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.embedding.packed_strings import encode_string, slice_strings
from elmore.errors import FormatError

any_text = st.text(st.characters(codec=None, exclude_categories=()))


def packed(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [encode_string(text) for text in texts]
    return np.frombuffer(b"".join(data), np.uint8), np.cumsum([0, *map(len, data)])


@given(st.lists(any_text), st.data())
def test_any_text_comes_back_from_any_slice(texts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts)))
    stop = data.draw(st.integers(start, len(texts)))
    assert slice_strings(*packed(texts), start, stop) == texts[start:stop]


def test_lone_surrogates_nul_and_slashes_are_texts_like_any_other() -> None:
    texts = ["\ud800", "\udc00\ud800", "a\0b", "\0", "/", ""]
    assert slice_strings(*packed(texts), 0, len(texts)) == texts


@pytest.mark.parametrize("offsets", [[0, 5, 3], [-1, 1, 3], [0, 1], [0, 1, 99], [0, 1, 3]])
def test_damaged_offsets_and_bytes_are_an_error(offsets: list[int]) -> None:
    data = np.frombuffer(b"\xff\xff\xff", np.uint8)
    with pytest.raises(FormatError):
        slice_strings(data, np.array(offsets), 0, 2)


def test_a_slice_that_runs_backwards_is_an_error() -> None:
    with pytest.raises(FormatError):
        slice_strings(*packed(["a", "b"]), 2, 1)
