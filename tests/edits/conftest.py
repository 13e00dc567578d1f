"""Fixtures of all tests of edits."""

from __future__ import annotations

import pytest

from unbag.edits.parsing import Parser, find_parser


@pytest.fixture(scope="session")
def parser() -> Parser:
    return find_parser()
