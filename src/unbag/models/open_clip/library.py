"""Nothing comes in; the open_clip library goes out, or an error that names the command to get it.

This package has the library's name; imports are absolute, so `open_clip` is always the library.
"""

from __future__ import annotations

from typing import Any

from unbag.errors import UserError


def library() -> Any:
    """The library, imported late: it takes seconds and is an optional extra."""
    try:
        import open_clip  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise UserError(
            f"open_clip: models need the package 'open_clip_torch' ({error})",
            way_out="pip install 'unbag[open_clip]'",
        ) from error
    return open_clip
