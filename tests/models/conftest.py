"""Tiny chat models of every family, saved to disk once a session."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.data import PixelImage

ChatFolder = Callable[[str], Path]


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> ChatFolder:
    """The folder of a family's model, made when it is first asked for."""
    pytest.importorskip("transformers")
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        from .tiny_chat import FAMILIES, save, tf
        from .tiny_chat_more import MORE

        if family not in made:
            tf.utils.logging.disable_progress_bar()
            torch.manual_seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                build = {**FAMILIES, **MORE}[family]
                made[family] = save(build(), tmp_path_factory.mktemp("chat") / family)
        return made[family]

    return folder


@pytest.fixture(scope="session")
def images() -> list[PixelImage]:
    """Noise in three shapes, so that models with tiles or grids see different numbers of them."""
    rng = np.random.default_rng(0)
    shapes = ((40, 60, 3), (60, 30, 3), (33, 33, 3))
    return [PixelImage(rng.integers(0, 255, shape, dtype=np.uint8)) for shape in shapes]
