"""One family of errors, each with its place."""

import pytest

from elmore.errors import (
    CannotExpress,
    ElmoreError,
    FormatError,
    InputError,
    MissingExtra,
    NotFound,
    OutOfMemory,
    error_context,
)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (FormatError, ValueError),
        (CannotExpress, FormatError),
        (InputError, ValueError),
        (NotFound, FileNotFoundError),
        (OutOfMemory, MemoryError),
    ],
)
def test_every_error_is_of_the_family_and_of_the_builtin_it_resembles(
    error: type[ElmoreError], builtin: type[Exception]
) -> None:
    assert issubclass(error, ElmoreError)
    assert issubclass(error, builtin)
    assert str(error("the reason")) == "the reason"


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = MissingExtra("writing Parquet", library="pyarrow", extra="parquet")
    assert isinstance(error, ElmoreError)
    assert isinstance(error, ImportError)
    assert str(error) == "writing Parquet requires pyarrow. Install it with: pip install 'elmore[parquet]'"


@pytest.mark.parametrize("error", [FormatError, NotFound, OutOfMemory])
def test_a_place_is_put_in_front_of_the_reason(error: type[ElmoreError]) -> None:
    with pytest.raises(error) as caught, error_context("weights.hdf5"):
        raise error("char_embed is missing")
    assert str(caught.value) == "weights.hdf5: char_embed is missing"


def test_places_nest_from_the_outside_in() -> None:
    with pytest.raises(InputError) as caught, error_context("model.zip"), error_context("vocab.txt"):
        raise InputError("not UTF-8")
    assert str(caught.value) == "model.zip: vocab.txt: not UTF-8"


def test_a_missing_extra_can_be_located_too() -> None:
    with pytest.raises(MissingExtra) as caught, error_context("big.txt.zst"):
        raise MissingExtra("zst", library="zstandard", extra="zst")
    assert str(caught.value).startswith("big.txt.zst: zst requires zstandard")


def test_errors_of_others_pass_as_they_are() -> None:
    with pytest.raises(KeyError) as caught, error_context("weights.hdf5"):
        raise KeyError("a mistake of ours")
    assert caught.value.args == ("a mistake of ours",)


def test_an_error_without_a_reason_has_an_empty_message() -> None:
    assert str(ElmoreError()) == ""
