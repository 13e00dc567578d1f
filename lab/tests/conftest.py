"""A small base and one benchmark of the world, for all tests of repair arms."""

from pathlib import Path

import pytest

from unbag.models.tiny import untrained, write
from unbag_lab.bases import small_config
from unbag_lab.questions import Questions

CONFIG = small_config()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bases") / "small.safetensors"
    write(untrained(CONFIG, seed=0), path)
    return path


@pytest.fixture(scope="module")
def questions() -> Questions:
    return Questions(["world-binding"])
