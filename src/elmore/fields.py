"""Dataclasses from plain values of JSON, TOML and the command line, with checks of each field.

The type of a field can be bool, int, float, str, a Literal, `tuple[X, ...]` or `tuple[X, Y]` for lists,
`Mapping[str, X]`, `int | str`, another dataclass, a list or a Mapping of dataclasses, each of these `| None`, and Any.
`checked_field` adds limits, which hold for each number of a list. A class checks relations between its fields in
`__post_init__`, and calls `check_fields` there, so that values from Python code are checked like values from a file.
"""

import math
import operator
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmore.display import join_names
from elmore.errors import ElmoreError, InputError, error_context

T = TypeVar("T")

LARGEST_INTEGER = 2**63 - 1  # of TOML and of most JSON parsers


class TomlText(str):
    """A value from the command line: TOML, or plain text for a text field."""

    __slots__ = ()

    def parse(self, kind: Any, *, optional: bool) -> Any:
        """The value for a field of this type.

        >>> TomlText("2024").parse(int, optional=False), TomlText("2024").parse(str, optional=False)
        (2024, '2024')
        """
        # Imported here: only the command line needs it.
        import tomllib

        try:
            value = tomllib.loads(f"value = {self}")["value"]
        except (ValueError, RecursionError):  # not TOML, or a number or a nesting that Python does not read
            return str(self)
        if optional and value is False:
            return value
        if kind is str or get_origin(kind) is Literal:
            return value if isinstance(value, str) else str(self)
        if get_origin(kind) is Union:
            return value if type(value) in get_args(kind) else str(self)
        return value


def checked_field(
    default: T,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    must_be: str = "",
    instead_of: str = "",
    former_name: str = "",
) -> T:
    """A field with limits. `must_be` describes them in an error, if type and numbers do not.

    `instead_of` names another field. If this field is given and the other is not, the other gets its default.
    `former_name` is the name of the field in older files, which `read_fields` also accepts.
    """
    limits = Limits(at_least=at_least, above=above, at_most=at_most, must_be=must_be, instead_of=instead_of)
    declared: T = field(default=default, metadata={"limits": limits, "former_name": former_name})
    return declared


def required_field(*, at_least: float | None = None, must_be: str = "") -> Any:
    """A field with limits and without a default."""
    return checked_field(MISSING, at_least=at_least, must_be=must_be)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a field."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    must_be: str = ""
    instead_of: str = ""

    def allow(self, number: float) -> bool:
        return (
            (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.at_most is None or number <= self.at_most)
        )

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f" from {self.at_least} to {self.at_most}"
        least = "" if self.at_least is None else f", at least {self.at_least}"
        above = "" if self.above is None else f" above {self.above}"
        most = "" if self.at_most is None else f", at most {self.at_most}"
        return f"{least}{above}{most}"


def read_fields(
    cls: type[T],
    values: Any,
    *,
    base: T | None = None,
    where: str = "",
    error: type[ElmoreError] = InputError,
) -> T:
    """Create an object of a dataclass. Missing values come from `base`, or are the defaults of the fields.

    `where` is the prefix of field names in errors, and `error` is the type of the errors. For optional fields, `false`
    means None: TOML has no null.

    >>> @dataclass(frozen=True)
    ... class Tagger:
    ...     layers: int = checked_field(2, at_least=1)
    >>> read_fields(Tagger, {"layers": 3})
    Tagger(layers=3)
    >>> read_fields(Tagger, {"layers": 0}, where="task")
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: task.layers is 0; it must be a whole number, at least 1
    """
    try:
        return _read(cls, values, base, where)
    except InputError as wrong:
        raise error(str(wrong)) from None


def former_names(cls: type, values: Mapping[str, Any], where: str = "") -> dict[str, str]:
    """The former names of fields in `values`, with the current names.

    >>> @dataclass(frozen=True)
    ... class Tagger:
    ...     max_grad_norm: float = checked_field(5.0, former_name="clip")
    >>> former_names(Tagger, {"clip": 1.0}, "training"), read_fields(Tagger, {"clip": 1.0})
    ({'training.clip': 'training.max_grad_norm'}, Tagger(max_grad_norm=1.0))
    """
    kinds, renamed = get_type_hints(cls), {}
    for declared in fields(cls):
        former, inner = _former_name(declared), _without_none(kinds[declared.name])[0]
        if former != declared.name and former in values:
            renamed[_dotted_name(where, former)] = _dotted_name(where, declared.name)
        nested = values.get(declared.name)
        if is_dataclass(inner) and isinstance(inner, type) and isinstance(nested, Mapping):
            renamed |= former_names(inner, nested, _dotted_name(where, declared.name))
    return renamed


def check_fields(instance: Any) -> None:
    """Check the type and limits of every field of a dataclass, for `__post_init__`.

    Values of an equivalent type are converted: a list to a tuple, NumPy's numbers to Python's.
    """
    kinds = get_type_hints(type(instance))
    for one in fields(instance):
        value = getattr(instance, one.name)
        converted = _read_value(kinds[one.name], value, None, one.name, _limits(one))
        if converted is not value:
            object.__setattr__(instance, one.name, converted)  # frozen dataclasses allow no plain assignment


def former_dict(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain values, under their former names, for digests that must never change.

    >>> @dataclass(frozen=True)
    ... class Tagger:
    ...     num_layers: int = checked_field(2, former_name="layers")
    >>> former_dict(Tagger())
    {'layers': 2}
    """
    values = {_former_name(declared): getattr(instance, declared.name) for declared in fields(instance)}
    return {name: former_dict(value) if is_dataclass(value) else value for name, value in values.items()}


def check_value(name: str, value: Any, kind: Any, *, at_least: float | None = None) -> Any:
    """Check one value against a type and a limit, and return it as a plain value of that type.

    >>> check_value("state", "warm", Literal["fixed", "carry"])
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: state is 'warm'; it must be fixed or carry
    """
    return _read_value(kind, value, None, name, Limits(at_least=at_least))


def _read(cls: type[T], values: Any, base: T | None, where: str) -> T:
    if not isinstance(values, Mapping):
        raise InputError(f"{where or 'this'} is {_shown(values)}; it must be a table of fields")
    declared = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]
    values = _with_present_names(values, declared.values(), where)
    if getattr(cls, "IGNORES_UNKNOWN", False):  # a class attribute of records that other programs write
        values = {name: value for name, value in values.items() if name in declared}
    if unknown := sorted(str(name) for name in values.keys() - declared.keys()):
        raise InputError(f"unknown field {_dotted_name(where, join_names(unknown))}; known are {', '.join(declared)}")
    kinds = get_type_hints(cls)
    given: dict[str, Any] = {}
    for name, value in values.items():
        one = declared[name]
        default = getattr(base, name) if base is not None else None if one.default is MISSING else one.default
        limits = _limits(one)
        given[name] = _read_value(kinds[name], value, default, _dotted_name(where, name), limits)
        if limits.instead_of and limits.instead_of not in values:
            given[limits.instead_of] = declared[limits.instead_of].default
    if base is None and (missing := [name for name, one in declared.items() if name not in given and _is_needed(one)]):
        raise InputError(f"{_dotted_name(where, missing[0])} is missing")
    if where:
        with error_context(where):
            return _made(cls, base, given)
    return _made(cls, base, given)


def _with_present_names(values: Mapping[Any, Any], declared: Iterable[Field[Any]], where: str) -> Mapping[Any, Any]:
    """The values with the former names of fields replaced."""
    present_names = {_former_name(one): one.name for one in declared if _former_name(one) != one.name}
    for former, present in present_names.items():
        if former in values and present in values:
            raise InputError(f"{_dotted_name(where, former)} is the former name of {present}; give {present} alone")
    return {present_names.get(name, name): value for name, value in values.items()}


def _made(cls: type[T], base: T | None, given: Mapping[str, Any]) -> T:
    return cls(**given) if base is None else replace(base, **given)  # type: ignore[type-var]


def _read_value(kind: Any, value: Any, default: Any, name: str, limits: Limits) -> Any:
    """The value converted to the type: a list to a tuple, an integer to a float for a float field."""
    inner, optional = _without_none(kind)
    if isinstance(value, TomlText):
        value = value.parse(inner, optional=optional)
    if optional and (value is None or value is False):
        return None
    if is_dataclass(inner):
        # Python code passes an object. A table in a file changes some fields of the default.
        return value if isinstance(value, inner) else _read(inner, value, default, name)  # type: ignore[arg-type]
    part = get_args(inner)[0] if get_origin(inner) is tuple else None
    if is_dataclass(part) and isinstance(value, list | tuple):
        return tuple(_read_value(part, one, None, f"{name}[{number}]", limits) for number, one in enumerate(value))
    part = get_args(inner)[1] if get_origin(inner) is Mapping else None
    if is_dataclass(part) and isinstance(value, Mapping):
        return {key: _read_value(part, one, None, _dotted_name(name, str(key)), limits) for key, one in value.items()}
    try:
        converted = _converted(inner, value)
        numbers = converted if isinstance(converted, tuple) else (converted,)
        fits = all(limits.allow(one) for one in numbers if isinstance(one, int | float))
    except OverflowError:
        raise InputError(f"{name} is too large a number") from None
    except _UnfitError:
        fits = False
    if not fits:
        must_be = limits.must_be or f"{_in_words(inner)}{limits}"
        raise InputError(f"{name} is {_shown(value)}; it must be {must_be}{', or false for none' if optional else ''}")
    return converted


class _UnfitError(Exception):
    """A value is not of its field's type."""


def _converted(kind: Any, value: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any or (kind is bool and isinstance(value, bool)):
        return value
    if isinstance(value, str) and (kind is str or (origin is Literal and value in parts) or origin is Union):
        return str(value)
    if kind is float and isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value)):
        return float(value)
    if kind is int or origin is Union:
        return _whole_number(value)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = (parts[0],) * len(value) if parts[-1] is ... else parts
        if len(kinds) == len(value):
            return tuple(map(_converted, kinds, value))
    if origin is Mapping and isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _converted(parts[1], one) for name, one in value.items()}
    raise _UnfitError


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _UnfitError
    try:
        number = operator.index(value)
    except TypeError:  # an array with more than one number
        raise _UnfitError from None
    if abs(number) > LARGEST_INTEGER:
        raise OverflowError
    return number


def _in_words(kind: Any) -> str:
    """The description of a type in an error."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(parts) if len(parts) <= 2 else f"one of {', '.join(parts)}"
    if origin is tuple:
        return (
            f"a list, each of it {_in_words(parts[0])}" if parts[-1] is ... else f"[{', '.join(map(_in_words, parts))}]"
        )
    if origin is Mapping:
        return "a table" if parts[1] is Any else f"a table, each of it {_in_words(parts[1])}"
    if is_dataclass(kind):
        return "a table of fields"
    if origin is Union:
        return " or ".join(map(_in_words, parts))
    names: Mapping[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names[kind]


def _without_none(kind: Any) -> tuple[Any, bool]:
    """The type of a field without None, and whether None is allowed."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    inner = [part for part in parts if part is not type(None)]
    # No other unions, because a value could belong to several types. A number and a string are always different.
    assert len(inner) == 1 or set(inner) == {int, str}
    return inner[0] if len(inner) == 1 else Union[int, str], len(inner) < len(parts)  # noqa: UP007  # a type as a value


def _limits(declared: Field[Any]) -> Limits:
    limits: Limits = declared.metadata.get("limits", Limits())
    return limits


def _former_name(declared: Field[Any]) -> str:
    """The name of a field in older files."""
    return declared.metadata.get("former_name") or declared.name


def _is_needed(declared: Field[Any]) -> bool:
    return declared.default is MISSING and declared.default_factory is MISSING


def _dotted_name(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: Any) -> str:
    """A value in an error, shortened."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "a very large number"
    return text if len(text) <= 60 else f"{text[:57]}..."
