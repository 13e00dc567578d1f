"""Errors a user can fix: each says what was found, what was expected and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches


class UnbagError(Exception):
    """Something outside the program is wrong; the command line prints it without a traceback.

    Attributes:
        message: What was found.
        expected: What was expected instead.
        hint: What to do about it.

    Examples:
        >>> import unbag as ub
        >>> try:
        ...     ub.load_model("tinny:base")
        ... except ub.UnbagError as error:
        ...     print(error.message)
        unknown model 'tinny...'
    """

    def __init__(self, message: str, *, expected: str = "", hint: str = "") -> None:
        """State what was found, what was expected instead, and what to do about it."""
        self.message = message
        self.expected = expected
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        """All parts, one a line."""
        lines = [self.message]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  hint:     {self.hint}")
        return "\n".join(lines)


class ImageError(UnbagError, ValueError):
    """A whole image that one model cannot take; a run counts it as damaged and continues."""

    def __init__(self, key: str, message: str, *, expected: str = "", hint: str = "") -> None:
        """`key` is that of the image."""
        self.key = key
        super().__init__(message, expected=expected, hint=hint)


def said_by(error: Exception, *, most: int = 300) -> str:
    """What the error of a library says, on one line: as many whole sentences as fit."""
    # Some are written for a terminal, in bold.
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split()) or type(error).__name__
    if len(text) <= most:
        return text
    end = text.rfind(". ", 0, most)
    return text[: end + 1] if end > 0 else f"{text[:most].rpartition(' ')[0] or text[:most]} ..."


def unknown_name(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> UnbagError:
    """The error for a name nobody registered, offering the nearest ones."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    offered = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return UnbagError(
        f"unknown {kind} {name!r}",
        expected=offered or f"one of {', '.join(names) or '(none registered)'}",
        hint=hint or "`unbag list` shows every name; package.module:NAME works too",
    )


class IncompleteWarning(UserWarning):
    """A loader's word that what it gives is not the whole benchmark that papers report on.

    It reaches the report, and no number of that benchmark is compared with a published one.
    """
