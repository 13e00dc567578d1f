"""A plain JSON object comes in, its fields go out with checked types, or a UserError naming one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from unbag.errors import UserError

T = TypeVar("T")

_KINDS = {dict: "an object", list: "a list", type(None): "null"}


def wrong(where: str, *, found: object, expected: str) -> UserError:
    """The error for a value that does not fit, naming the field it stands in."""
    shown = _KINDS.get(type(found)) or repr(found)
    return UserError(
        f"field {where} is {shown}",
        expected=expected,
        way_out="check the file: it was cut short, changed, or written by another version",
    )


def is_whole_text(text: str) -> bool:
    """Whether UTF-8 can write it: an escape in JSON may name half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(value: object, where: str) -> str:
    """A string and nothing else."""
    if not isinstance(value, str):
        raise wrong(where, found=value, expected="a text")
    if not is_whole_text(value):
        raise wrong(where, found=value, expected="whole characters: this holds half of one")
    return value


def as_whole(value: object, where: str) -> int:
    """An integer; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(where, found=value, expected="a whole number")
    return value


def as_truth(value: object, where: str) -> bool:
    """True or false, never 0 or 1."""
    if not isinstance(value, bool):
        raise wrong(where, found=value, expected="true or false")
    return value


def as_number(value: object, where: str) -> float:
    """A number; null stands for NaN, which JSON does not have."""
    if value is None:
        return float("nan")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong(where, found=value, expected="a number or null")
    return float(value)


def as_maybe(value: object, where: str) -> float | None:
    """A number, or None where there is no such number."""
    return None if value is None else as_number(value, where)


def as_tuple(value: object, where: str, *, of: Callable[[object, str], T]) -> tuple[T, ...]:
    """A list whose entries are all read by `of`."""
    if not isinstance(value, list):
        raise wrong(where, found=value, expected="a list")
    return tuple(of(entry, f"{where}[{at}]") for at, entry in enumerate(value))


def as_mapping(value: object, where: str, *, of: Callable[[object, str], T]) -> dict[str, T]:
    """An object whose values are all read by `of`."""
    if not isinstance(value, dict):
        raise wrong(where, found=value, expected="an object")
    return {str(key): of(entry, f"{where}.{key}") for key, entry in value.items()}


class Fields(NamedTuple):
    """An object being read, and the path to it for messages."""

    values: Mapping[str, object]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Fields:
        """Open an object; anything else is refused."""
        if not isinstance(value, dict):
            raise wrong(where, found=value, expected="an object")
        return cls(value, where)

    def path(self, name: str) -> str:
        """What a message calls this field."""
        return f"{self.where}.{name}"

    def read(self, name: str, read: Callable[[object, str], T]) -> T:
        """One field through a reader."""
        if name not in self.values:
            raise UserError(
                f"field {self.path(name)} is missing",
                expected=f"an object with the field {name!r}",
                way_out="check the file: it was cut short, changed, or written by another version",
            )
        return read(self.values[name], self.path(name))

    def text(self, name: str) -> str:
        """A string field."""
        # Files have millions of them: the path is put together only for a message.
        value = self.values.get(name)
        if isinstance(value, str) and value.isascii():
            return value
        return self.read(name, as_text)

    def whole(self, name: str) -> int:
        """An integer field."""
        return self.read(name, as_whole)

    def truth(self, name: str) -> bool:
        """A true-or-false field."""
        return self.read(name, as_truth)

    def number(self, name: str) -> float:
        """A number field; null is NaN."""
        return self.read(name, as_number)

    def maybe(self, name: str) -> float | None:
        """A number field; null is None."""
        return self.read(name, as_maybe)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.values.get(name)
        if isinstance(value, list) and all(
            isinstance(entry, str) and entry.isascii() for entry in value
        ):
            return tuple(value)
        return self.many(name, as_text)

    def many(self, name: str, of: Callable[[object, str], T]) -> tuple[T, ...]:
        """A list field, each entry read by `of`."""
        return self.read(name, lambda value, where: as_tuple(value, where, of=of))

    def mapping(self, name: str, of: Callable[[object, str], T]) -> dict[str, T]:
        """An object field, each value read by `of`."""
        return self.read(name, lambda value, where: as_mapping(value, where, of=of))
