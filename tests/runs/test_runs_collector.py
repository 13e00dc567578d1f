"""The pause of the collector ends, however the work ends."""

import gc

import pytest

from unbag.runs.files import paused_collector


def fail_inside() -> None:
    with paused_collector():
        assert not gc.isenabled()
        raise KeyError


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError):
        fail_inside()
    assert gc.isenabled()


def test_it_stays_off_for_one_who_turned_it_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
