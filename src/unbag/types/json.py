"""JSON of dataclasses, by cattrs: written in the order of their fields, read back strictly.

JSON has no NaN: a number that could not be measured is written as null. A missing field or a
wrong type is a `UnbagError` that names the field by its path, what was found and what is expected.
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
"""An object as the json module writes and reads it."""
_UNWRITTEN: Mapping[type, frozenset[str]] = {
    # The record is written once a run and not once a result.
    Result: frozenset({"run"}),
    Edit: frozenset({"span"}),
}
_WAY_OUT = "check the file: it was cut short, changed, or written by another version"
_NOUNS = {dict: "an object", list: "a list", type(None): "null"}


def to_json(value: object) -> Any:
    """Objects, lists, texts and numbers that the json module writes; null for NaN and infinity."""
    return _converter().unstructure(value)


def from_json(kind: type[T], value: object, where: str, *, is_closed: bool = False) -> T:
    """Read what `to_json` wrote, or a value of any other file: every field must be there.

    Args:
        kind: A dataclass, or a type such as `str` or `dict[str, tuple[float, ...]]`; None is
            read from null, and NaN where a number is wanted.
        value: What the json module read.
        where: What messages call it; the path to a field follows.
        is_closed: Refuse fields that the class does not have, instead of passing over them.
    """
    if kind is str and isinstance(value, str) and value.isascii():
        # Files have millions of them.
        return value  # type: ignore[return-value]
    try:
        return _converter(is_closed).structure(value, kind)
    except (_NotReadError, ExceptionGroup) as error:
        raise _explained(error, where) from None


def read_field(record: object, name: str, kind: type[T], where: str) -> T:
    """Read one field of an object of a foreign file, of which no more needs to be known."""
    if not isinstance(record, dict):
        raise wrong(where, found=record, expected="an object")
    if name not in record:
        raise _explained(_NotReadError.missing(name), where)
    value = record[name]
    # Files have millions of them: the path is put together only for a message.
    if kind is str and isinstance(value, str) and value.isascii():
        return value  # type: ignore[return-value]
    return from_json(kind, value, f"{where}.{name}")


def wrong(where: str, *, found: object, expected: str) -> UnbagError:
    """The error for a value that does not fit, naming the field it stands in."""
    return _explained(_NotReadError.of(found, expected), where)


def is_whole_text(text: str) -> bool:
    """Whether UTF-8 can write it: an escape in JSON may name half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _NotReadError(Exception):
    """A value that does not fit; `said` follows the path to it."""

    def __init__(self, said: str, expected: str) -> None:
        super().__init__(said)
        self.said, self.expected = said, expected

    @classmethod
    def of(cls, found: object, expected: str) -> _NotReadError:
        return cls(f" is {_NOUNS.get(type(found)) or repr(found)}", expected)

    @classmethod
    def missing(cls, name: str) -> _NotReadError:
        return cls(f".{name} is missing", f"an object with the field {name!r}")


def _explained(error: Exception, where: str) -> UnbagError:
    """The first thing that was wrong, with its path."""
    from cattrs import AttributeValidationNote, IterableValidationNote

    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                where += f".{note.name}"
            elif isinstance(note, IterableValidationNote):
                where += f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
    if isinstance(error, _NotReadError):
        return UnbagError(f"field {where}{error.said}", expected=error.expected, hint=_WAY_OUT)
    if isinstance(error, UnbagError):
        return error
    return UnbagError(f"field {where} cannot be read: {error}", hint=_WAY_OUT)


@cache
def _converter(is_closed: bool = False) -> Converter:
    from cattrs import Converter
    from cattrs.cols import is_namedtuple

    # Tuples become lists, as JSON gives them back.
    made = Converter(forbid_extra_keys=is_closed, unstruct_collection_overrides={tuple: list})
    made.register_unstructure_hook(float, _finite)
    made.register_unstructure_hook(Counter, lambda counts: dict(counts.most_common()))
    made.register_unstructure_hook_factory(is_dataclass, _writer_of)
    made.register_structure_hook_factory(is_dataclass, _reader_of)
    made.register_structure_hook(str, _read_text)
    made.register_structure_hook(int, _exactly(int, "a whole number"))
    made.register_structure_hook(bool, _exactly(bool, "true or false"))
    made.register_structure_hook(float, _read_number)
    made.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    made.register_structure_hook_factory(lambda kind: _origin(kind) is Literal, _choice_of)
    made.register_structure_hook_factory(lambda kind: _origin(kind) in (tuple, list), _list_of)
    made.register_structure_hook_factory(is_namedtuple, _named_tuple_of)
    made.register_structure_hook_factory(
        lambda kind: _origin(kind) in (dict, Mapping, Counter), _mapping_of
    )
    return made


def _origin(kind: Any) -> Any:
    return get_origin(kind)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _writer_of(kind: type[Any], made: Converter) -> Callable[[Any], JsonObject]:
    from cattrs.gen import make_dict_unstructure_fn

    write = make_dict_unstructure_fn(kind, made, **_unwritten(kind))
    if kind is not Reference:
        return write

    def written(one: Reference) -> JsonObject:
        made = write(one)
        doubts = made.pop("doubts")
        # It follows from the others, and is written for other programs.
        return {**made, "is_inside": one.is_inside, "doubts": doubts}

    return written


def _reader_of(kind: type[Any], made: Converter) -> Callable[[Any, Any], Any]:
    from cattrs.gen import make_dict_structure_fn

    overrides = _unwritten(kind)
    read = make_dict_structure_fn(kind, made, **overrides)
    names = [one.name for one in fields(kind) if one.init and one.name not in overrides]

    def checked(value: object, _: object) -> Any:
        if not isinstance(value, dict):
            raise _NotReadError.of(value, "an object")
        # The library would put defaults in the place of what is missing.
        for name in names:
            if name not in value:
                raise _NotReadError.missing(name)
        return read(value, kind)

    return checked


def _unwritten(kind: type[Any]) -> dict[str, Any]:
    from cattrs.gen import override

    return {name: override(omit=True) for name in _UNWRITTEN.get(kind, ())}


def _read_text(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise _NotReadError.of(value, "a text")
    if not is_whole_text(value):
        raise _NotReadError.of(value, "whole characters: this holds half of one")
    return value


def _exactly(kind: type, expected: str) -> Callable[[object, object], Any]:
    """The library would convert, and True is an int to Python."""

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


def _choice_of(kind: Any) -> Callable[[object, object], object]:
    known = get_args(kind)

    def read(value: object, _: object) -> object:
        if value not in known:
            raise _NotReadError.of(value, f"one of {', '.join(map(str, known))}")
        return value

    return read


def _list_of(kind: Any, made: Converter) -> Callable[[Any, Any], Any]:
    from cattrs.cols import homogenous_tuple_structure_factory, list_structure_factory

    read: Callable[[Any, Any], Any]
    if get_origin(kind) is list:
        read = list_structure_factory(kind, made)
    elif Ellipsis in get_args(kind):
        read = homogenous_tuple_structure_factory(kind, made)
    else:
        read = made.gen_structure_hetero_tuple(kind)
    return _only(list, "a list", read)


def _named_tuple_of(kind: Any, made: Converter) -> Callable[[Any, Any], Any]:
    # The library's own hook does not resolve annotations that are written as text.
    types: Any = tuple(get_type_hints(kind).values())
    read = made.get_structure_hook(tuple[types])
    return lambda value, _: kind(*read(value, kind))


def _mapping_of(kind: Any, made: Converter) -> Callable[[Any, Any], Any]:
    from cattrs.cols import mapping_structure_factory

    if get_origin(kind) is Counter:
        return _only(dict, "an object", made.gen_structure_counter(kind))
    return _only(dict, "an object", mapping_structure_factory(kind, made))


def _only(
    wanted: type, expected: str, read: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """The library would take a text for a list of letters."""

    def checked(value: object, kind: object) -> Any:
        if not isinstance(value, wanted):
            raise _NotReadError.of(value, expected)
        return read(value, kind)

    return checked
