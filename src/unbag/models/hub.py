"""Code that downloads comes in; it runs without a line for each attempt that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def quiet_hub() -> Iterator[None]:
    """No reports of the Hugging Face hub's client; its error says it once, bars stay."""
    logging: Any = import_module("huggingface_hub.utils").logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
