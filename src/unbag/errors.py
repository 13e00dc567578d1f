"""Errors that a user can fix: each names the problem, what was expected and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches


class UnbagError(Exception):
    """An error in input, files or options; the command line prints it without a traceback.

    Attributes:
        message: The problem.
        expected: What was expected instead.
        hint: How to fix it.

    Examples:
        >>> import unbag as ub
        >>> try:
        ...     ub.load_model("tinny:base")
        ... except ub.UnbagError as error:
        ...     print(error.message)
        unknown model 'tinny...'
    """

    def __init__(self, message: str, *, expected: str = "", hint: str = "") -> None:
        """Take the problem, what was expected instead, and how to fix it."""
        self.message = message
        self.expected = expected
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        """Return message, expectation and hint, each on its own line."""
        lines = [self.message]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  hint:     {self.hint}")
        return "\n".join(lines)


class ImageError(UnbagError, ValueError):
    """A model cannot process an intact image; a run counts the image as damaged and continues."""

    def __init__(self, key: str, message: str, *, expected: str = "", hint: str = "") -> None:
        """Take the key of the image and the parts of an `UnbagError`."""
        self.key = key
        super().__init__(message, expected=expected, hint=hint)


def said_by(error: Exception, *, most: int = 300) -> str:
    """Return the message of an exception on one line, cut to as many whole sentences as fit."""
    # Some libraries add escape codes for bold text.
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split()) or type(error).__name__
    if len(text) <= most:
        return text
    end = text.rfind(". ", 0, most)
    return text[: end + 1] if end > 0 else f"{text[:most].rpartition(' ')[0] or text[:most]} ..."


def unknown_name(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> UnbagError:
    """Return the error for a name that is not registered; it suggests similar names."""
    names = sorted(known)
    matches = get_close_matches(name, names, n=3, cutoff=0.5)
    suggestion = f"did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""
    return UnbagError(
        f"unknown {kind} {name!r}",
        expected=suggestion or f"one of {', '.join(names) or '(none registered)'}",
        hint=hint or "`unbag list` shows every name; package.module:NAME works too",
    )


class IncompleteWarning(UserWarning):
    """A loader warns that its items are not the whole benchmark that papers report on.

    The report shows the warning and compares no number of that benchmark with published ones.
    """
