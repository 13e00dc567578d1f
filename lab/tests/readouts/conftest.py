"""What every test of the page on read-outs reads."""

from __future__ import annotations

import pytest

from unbag_lab.results import ArmResult

from .readout_page import shipped_readouts, words_of


@pytest.fixture(scope="session")
def results() -> list[ArmResult]:
    return shipped_readouts()


@pytest.fixture(scope="session")
def words() -> str:
    return words_of()
