"""A picture inside a larger file, such as a shard, is read by its place there and decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.pictures.files import decode

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class MemberPicture:
    """An encoded picture that is part of a file."""

    path: Path
    member: str
    """Its name there, for messages."""
    start: int
    """First byte."""
    size: int

    @property
    def name(self) -> str:
        """File and member."""
        return f"{self.path}[{self.member}]"

    @property
    def key(self) -> str:
        """Hash of the encoded picture; of its place if it cannot be read."""
        return encoded_key(self._encoded, self.name)

    def open(self) -> Image:
        """Decode to RGB; OSError or ValueError if that cannot be done."""
        return decode(BytesIO(self._encoded()), name=self.name)

    def _encoded(self) -> bytes:
        return read_part(self.path, self.start, self.size)


def encoded_key(read: Callable[[], bytes], name: str) -> str:
    """Identity of an encoded picture by its content; by its name if it cannot be read."""
    try:
        return "bytes:" + blake2b(read(), digest_size=16).hexdigest()
    except (OSError, ValueError):
        return "missing:" + blake2b(name.encode(), digest_size=16).hexdigest()


def read_part(path: Path, start: int, size: int) -> bytes:
    """Some bytes of a file; ValueError where it ends before."""
    with path.open("rb") as file:
        file.seek(start)
        found = file.read(size)
    if len(found) != size:
        raise ValueError(f"{path} ends before byte {start + size:,}: it has changed")
    return found
