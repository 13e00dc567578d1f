"""What tests of the study share: the set-up of the tool's tests, a small base, one benchmark."""

from pathlib import Path

import pytest
from tests.conftest import (  # noqa: F401
    _can_fork,
    _no_width,
    _one_pipeline,
    _own_cache,
    browser,
)

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
