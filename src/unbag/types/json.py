"""Dataclasses to JSON and back with cattrs: written in field order, read strictly.

JSON has no NaN, so a number that could not be measured is written as null. A missing field or a
wrong type raises a `UnbagError` with the path of the field, the value and what is expected.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from unbag.errors import UnbagError
from unbag.types.items import Edit
from unbag.types.results import Reference, Result

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
JsonObject = dict[str, object]
"""A JSON object as the json module reads and writes it."""
_OMITTED_FIELDS: Mapping[type, frozenset[str]] = {
    # The record is written once per run, not with every result.
    Result: frozenset({"run"}),
    Edit: frozenset({"span"}),
}
_HINT = "check the file: it was cut short, changed, or written by another version"
_NOUNS = {dict: "an object", list: "a list", type(None): "null"}


def to_json(value: object) -> Any:
    """Convert to what the json module writes; NaN and infinity become null."""
    return _converter().unstructure(value)


def from_json(kind: type[T], value: object, where: str, *, is_closed: bool = False) -> T:
    """Convert JSON to `kind`; every field must be present.

    Args:
        kind: A dataclass, or a type such as `str` or `dict[str, tuple[float, ...]]`. Null is
            read as None, or as NaN where a number is expected.
        value: A value that the json module read.
        where: Start of the path that messages give.
        is_closed: Raise an error for fields that the class does not have instead of ignoring them.
    """
    if kind is str and isinstance(value, str) and value.isascii():
        # Fast path: files have millions of strings.
        return value  # type: ignore[return-value]
    try:
        return _converter(is_closed).structure(value, kind)
    except (_NotReadError, ExceptionGroup) as error:
        raise _to_unbag_error(error, where) from None


def read_field(record: object, name: str, kind: type[T], where: str) -> T:
    """Read one field of a JSON object and ignore the others."""
    if not isinstance(record, dict):
        raise wrong(where, found=record, expected="an object")
    if name not in record:
        raise _to_unbag_error(_NotReadError.missing(name), where)
    value = record[name]
    # Fast path: files have millions of strings, and the path is needed only for messages.
    if kind is str and isinstance(value, str) and value.isascii():
        return value  # type: ignore[return-value]
    return from_json(kind, value, f"{where}.{name}")


def wrong(where: str, *, found: object, expected: str) -> UnbagError:
    """Return the error for a field with a wrong value."""
    return _to_unbag_error(_NotReadError.of(found, expected), where)


def is_whole_text(text: str) -> bool:
    """Return whether UTF-8 can encode it: a JSON escape may name half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _NotReadError(Exception):
    """A wrong value; `message` follows the path to it."""

    def __init__(self, message: str, expected: str) -> None:
        super().__init__(message)
        self.message, self.expected = message, expected

    @classmethod
    def of(cls, found: object, expected: str) -> _NotReadError:
        return cls(f" is {_NOUNS.get(type(found)) or repr(found)}", expected)

    @classmethod
    def missing(cls, name: str) -> _NotReadError:
        return cls(f".{name} is missing", f"an object with the field {name!r}")


def _to_unbag_error(error: Exception, where: str) -> UnbagError:
    """Convert the first of the errors to a UnbagError with the path of the field."""
    from cattrs import AttributeValidationNote, IterableValidationNote

    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                where += f".{note.name}"
            elif isinstance(note, IterableValidationNote):
                where += f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
    if isinstance(error, _NotReadError):
        return UnbagError(f"field {where}{error.message}", expected=error.expected, hint=_HINT)
    if isinstance(error, UnbagError):
        return error
    return UnbagError(f"field {where} cannot be read: {error}", hint=_HINT)


@cache
def _converter(is_closed: bool = False) -> Converter:
    from cattrs import Converter
    from cattrs.cols import is_namedtuple

    # Tuples become lists, as JSON gives them back.
    converter = Converter(forbid_extra_keys=is_closed, unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook(float, _finite)
    converter.register_unstructure_hook(Counter, lambda counts: dict(counts.most_common()))
    converter.register_unstructure_hook_factory(is_dataclass, _writer_of)
    converter.register_structure_hook_factory(is_dataclass, _reader_of)
    converter.register_structure_hook(str, _read_text)
    converter.register_structure_hook(int, _reader_of_type(int, "a whole number"))
    converter.register_structure_hook(bool, _reader_of_type(bool, "true or false"))
    converter.register_structure_hook(float, _read_number)
    converter.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) is Literal, _reader_of_literal
    )
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) in (tuple, list), _reader_of_list
    )
    converter.register_structure_hook_factory(is_namedtuple, _reader_of_named_tuple)
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) in (dict, Mapping, Counter), _reader_of_mapping
    )
    return converter


def _origin(kind: Any) -> Any:
    # get_origin itself has no type that suits every check here.
    return get_origin(kind)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _writer_of(kind: type[Any], converter: Converter) -> Callable[[Any], JsonObject]:
    from cattrs.gen import make_dict_unstructure_fn

    write = make_dict_unstructure_fn(kind, converter, **_omissions(kind))
    if kind is not Reference:
        return write

    def write_reference(reference: Reference) -> JsonObject:
        record = write(reference)
        doubts = record.pop("doubts")
        # Derived from the other fields, and written for other programs.
        return {**record, "is_inside": reference.is_inside, "doubts": doubts}

    return write_reference


def _reader_of(kind: type[Any], converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs.gen import make_dict_structure_fn

    overrides = _omissions(kind)
    read = make_dict_structure_fn(kind, converter, **overrides)
    names = [field.name for field in fields(kind) if field.init and field.name not in overrides]

    def checked(value: object, _: object) -> Any:
        if not isinstance(value, dict):
            raise _NotReadError.of(value, "an object")
        # cattrs would fill missing fields with defaults.
        for name in names:
            if name not in value:
                raise _NotReadError.missing(name)
        return read(value, kind)

    return checked


def _omissions(kind: type[Any]) -> dict[str, Any]:
    from cattrs.gen import override

    return {name: override(omit=True) for name in _OMITTED_FIELDS.get(kind, ())}


def _read_text(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise _NotReadError.of(value, "a string")
    if not is_whole_text(value):
        raise _NotReadError.of(value, "whole characters: this holds half of one")
    return value


def _reader_of_type(kind: type, expected: str) -> Callable[[object, object], Any]:
    """Read exactly this type: cattrs would convert, and True is an int in Python."""

    def read(value: object, _: object) -> object:
        if type(value) is not kind:
            raise _NotReadError.of(value, expected)
        return value

    return read


def _read_number(value: object, _: object) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _NotReadError.of(value, "a number or null")
    return float(value)


def _reader_of_literal(kind: Any) -> Callable[[object, object], object]:
    choices = get_args(kind)

    def read(value: object, _: object) -> object:
        if value not in choices:
            raise _NotReadError.of(value, f"one of {', '.join(map(str, choices))}")
        return value

    return read


def _reader_of_list(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs.cols import homogenous_tuple_structure_factory, list_structure_factory

    read: Callable[[Any, Any], Any]
    if _origin(kind) is list:
        read = list_structure_factory(kind, converter)
    elif Ellipsis in get_args(kind):
        read = homogenous_tuple_structure_factory(kind, converter)
    else:
        read = converter.gen_structure_hetero_tuple(kind)
    return _checked_reader(list, "a list", read)


def _reader_of_named_tuple(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    # The hook of cattrs does not resolve annotations that are strings.
    types: Any = tuple(get_type_hints(kind).values())
    read = converter.get_structure_hook(tuple[types])
    return lambda value, _: kind(*read(value, kind))


def _reader_of_mapping(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    from cattrs.cols import mapping_structure_factory

    if _origin(kind) is Counter:
        return _checked_reader(dict, "an object", converter.gen_structure_counter(kind))
    return _checked_reader(dict, "an object", mapping_structure_factory(kind, converter))


def _checked_reader(
    expected_type: type, expected: str, read: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Check the type first: cattrs would read a string as a list of letters."""

    def checked(value: object, kind: object) -> Any:
        if not isinstance(value, expected_type):
            raise _NotReadError.of(value, expected)
        return read(value, kind)

    return checked
