"""A small base and one benchmark of the world, for all tests of repair arms."""

from pathlib import Path

import pytest

from unbag.lab.questions import Questions
from unbag.models.tiny import untrained, write
from unbag.models.tiny_towers import TinyConfig
from unbag.world.parse import words

CONFIG = TinyConfig(
    patch=16,
    picture_width=16,
    picture_depth=1,
    caption_width=16,
    caption_depth=1,
    joint=16,
    heads=2,
    words=words(),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bases") / "small.safetensors"
    write(untrained(CONFIG, seed=0), path)
    return path


@pytest.fixture(scope="module")
def questions() -> Questions:
    return Questions(["world-binding"])
