"""A dataclass is read from plain values whole, or refused by the name of the field that is wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest

from elmore.errors import FormatError, InputError
from elmore.fields import check_fields, check_value, checked_field, read_fields


@dataclass(frozen=True)
class Inner:
    width: int = checked_field(3, at_least=1)
    height: int = 4

    def __post_init__(self) -> None:
        check_fields(self)
        if self.width > self.height:
            raise InputError("wider than high")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    share: float = checked_field(0.5, above=0, at_most=1)
    on: bool = False
    color: Literal["red", "green", "blue"] = "red"
    way: Literal["up", "down"] | None = None
    sizes: tuple[int, ...] = ()
    pair: tuple[str, float] = ("", 0.0)
    pairs: tuple[tuple[int, int], ...] = ()
    limit: float | None = checked_field(1.0, at_least=0)
    inner: Inner = Inner()
    other: Inner | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    boxes: tuple[Inner, ...] = ()
    named: Mapping[str, Inner] = field(default_factory=dict)
    epochs: float = checked_field(1.0, instead_of="steps")
    steps: int = 0

    def __post_init__(self) -> None:
        check_fields(self)


FULL = {
    "name": "a",
    "share": 1,
    "on": True,
    "color": "blue",
    "way": "up",
    "sizes": [1, 2],
    "pair": ["x", 2],
    "pairs": [[1, 2], [3, 4]],
    "limit": None,
    "inner": {"width": 1},
    "other": {"height": 9},
    "numbers": {"é": 3},
    "extra": {"deep": [1, {"x": None}]},
    "boxes": [{"width": 2}, {}],
    "named": {"a": {"width": 2}},
    "epochs": 2,
    "steps": 7,
}


def test_every_kind_of_field_is_read():
    assert read_fields(Outer, FULL) == Outer(
        name="a",
        share=1.0,
        on=True,
        color="blue",
        way="up",
        sizes=(1, 2),
        pair=("x", 2.0),
        pairs=((1, 2), (3, 4)),
        limit=None,
        inner=Inner(width=1),
        other=Inner(height=9),
        numbers={"é": 3},
        extra={"deep": [1, {"x": None}]},
        boxes=(Inner(width=2), Inner()),
        named={"a": Inner(width=2)},
        epochs=2.0,
        steps=7,
    )


def test_whole_numbers_become_floats_where_those_are_meant():
    read = read_fields(Outer, FULL)
    assert [type(number) for number in (read.share, read.pair[1], read.epochs)] == [float, float, float]


def test_what_is_left_out_comes_from_the_base_and_else_is_the_default():
    base = Outer(name="a", share=0.25, inner=Inner(width=2, height=8), steps=3)
    assert read_fields(Outer, {"on": True, "inner": {"height": 5}}, base=base) == replace(
        base, on=True, inner=Inner(width=2, height=5)
    )
    assert read_fields(Outer, {"name": "b"}) == Outer(name="b")


def test_a_field_that_stands_instead_of_another_puts_that_one_back():
    base = Outer(name="a", steps=3)
    assert read_fields(Outer, {"epochs": 4}, base=base).steps == 0
    assert read_fields(Outer, {"epochs": 4, "steps": 5}, base=base).steps == 5
    assert read_fields(Outer, {"steps": 5, "epochs": 4}, base=base).steps == 5
    assert read_fields(Outer, {"on": True}, base=base).steps == 3


@pytest.mark.parametrize("name", ["limit", "other", "way"])
def test_false_is_none_where_a_field_may_be_none(name):
    assert getattr(read_fields(Outer, FULL | {name: False}), name) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", np.int64(3)),
        ("steps", np.array(3)),
        ("share", np.float64(0.5)),
        ("share", np.float32(0.5)),
        ("share", np.int32(1)),
        ("name", np.str_("a")),
        ("sizes", (np.int8(1), 2)),
        ("limit", np.float32(2)),
    ],
)
def test_numbers_of_numpy_are_accepted_as_plain_values(name, value):
    read = getattr(read_fields(Outer, {"name": "b", name: value}), name)
    assert read == value
    assert json.loads(json.dumps(read)) in (read, list(value) if isinstance(value, tuple) else read)
    made = getattr(Outer(**{"name": "b", name: value}), name)
    assert type(made) is type(read)
    assert check_value(name, np.int64(3), int) == 3
    assert type(check_value(name, np.int64(3), int)) is int


@pytest.mark.parametrize("value", [np.bool_(True), np.float64(3), np.array([3, 4]), "3"])
def test_what_is_no_whole_number_is_rejected(value):
    with pytest.raises(InputError, match=r"steps is .*; it must be a whole number"):
        read_fields(Outer, {"name": "b", "steps": value})


def test_number_or_text_accepts_a_number_of_numpy():
    @dataclass(frozen=True)
    class Layers:
        layers: int | str = "all"

    assert type(read_fields(Layers, {"layers": np.int64(2)}).layers) is int


WRONG = [
    ({"colour": "red"}, r"unknown field colour; known are name, share, on, color"),
    ({"name": 3}, r"^name is 3; it must be a string$"),
    ({"name": None}, r"^name is None; it must be a string$"),
    ({"share": 0}, r"^share is 0; it must be a number above 0, at most 1$"),
    ({"share": float("nan")}, r"^share is nan; it must be a number above 0"),
    ({"share": "0.5"}, r"^share is '0.5'; it must be a number"),
    ({"share": True}, r"^share is True; it must be a number"),
    ({"share": 10**400}, r"^share is too large a number$"),
    ({"steps": 2**63}, r"^steps is too large a number$"),
    ({"steps": 1.0}, r"^steps is 1.0; it must be a whole number$"),
    ({"on": 1}, r"^on is 1; it must be true or false$"),
    ({"color": "pink"}, r"^color is 'pink'; it must be one of red, green, blue$"),
    ({"color": ["red"]}, r"^color is \['red'\]; it must be one of"),
    ({"way": "left"}, r"^way is 'left'; it must be up or down, or false for none$"),
    ({"way": True}, r"^way is True; it must be up or down"),
    ({"sizes": 3}, r"^sizes is 3; it must be a list, each of it a whole number$"),
    ({"sizes": [1, "2"]}, r"^sizes is \[1, '2'\]; it must be a list"),
    ({"pair": ["x"]}, r"^pair is \['x'\]; it must be \[a string, a number\]$"),
    ({"pairs": [[1]]}, r"^pairs is \[\[1\]\]; it must be a list, each of it \[a whole number, a whole number\]$"),
    ({"limit": -1}, r"^limit is -1; it must be a number, at least 0, or false for none$"),
    ({"inner": 3}, r"^inner is 3; it must be a table of fields$"),
    ({"inner": None}, r"^inner is None; it must be a table of fields$"),
    ({"inner": {"width": 0}}, r"^inner\.width is 0; it must be a whole number, at least 1$"),
    ({"inner": {"depth": 0}}, r"^unknown field inner\.depth; known are width, height$"),
    ({"inner": {"width": 9}}, r"^inner: wider than high$"),
    ({"numbers": {"a": "1"}}, r"^numbers is \{'a': '1'\}; it must be a table, each of it a whole number$"),
    ({"boxes": [{}, {"width": 0}]}, r"^boxes\[1\]\.width is 0; it must be a whole number, at least 1$"),
    ({"named": {"a": 3}}, r"^named\.a is 3; it must be a table of fields$"),
    ({"extra": []}, r"^extra is \[\]; it must be a table$"),
    ({"name": 99 * ["long"]}, r"^name is \['long', .*\.\.\.; it must be a string$"),
]


@pytest.mark.parametrize(("values", "complaint"), WRONG)
def test_a_wrong_field_is_refused_by_its_name(values, complaint):
    with pytest.raises(InputError, match=complaint):
        read_fields(Outer, FULL | values)


def test_a_field_without_a_default_must_be_there():
    with pytest.raises(InputError, match=r"^task\.name is missing$"):
        read_fields(Outer, {}, where="task")


def test_the_caller_names_the_place_and_the_kind_of_error():
    with pytest.raises(FormatError, match=r"^card\.inner: wider than high$"):
        read_fields(Outer, {"inner": {"width": 5}}, where="card", error=FormatError)
    with pytest.raises(FormatError, match=r"^this is \[\]; it must be a table of fields$"):
        read_fields(Outer, [], error=FormatError)


def test_what_python_code_gives_is_held_to_the_same():
    with pytest.raises(InputError, match="width is 0; it must be a whole number, at least 1"):
        Inner(width=0)
    with pytest.raises(InputError, match=r"height is 4\.0; it must be a whole number"):
        Inner(height=4.0)  # type: ignore[arg-type]


def test_every_number_of_a_list_is_held_to_its_limits():
    @dataclass(frozen=True)
    class Tagger:
        hidden: tuple[int, ...] = checked_field((200, 200), at_least=1)

    assert read_fields(Tagger, {"hidden": [3]}).hidden == (3,)
    with pytest.raises(
        InputError, match=r"hidden is \[3, 0\]; it must be a list, each of it a whole number, at least 1"
    ):
        read_fields(Tagger, {"hidden": [3, 0]})
