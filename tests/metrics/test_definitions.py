from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unbag.metrics import (
    CHANCE,
    CHANCE_INDEPENDENT,
    DEFINITIONS,
    Choice,
    Classify,
    Correlation,
    Flips,
    Groups,
    Joined,
    JoinedPairs,
    Pairs,
    PickImage,
    Recall,
    Relaxed,
    Retention,
    Statements,
    TextOnly,
    Triples,
    recall_definition,
)
from unbag.metrics.retrieval import DIRECTIONS
from unbag.types import Case, Metric

Make = Callable[..., Case]
METRICS: tuple[Metric, ...] = (
    Choice(),
    Triples(),
    Pairs(),
    Groups(),
    Recall(),
    Retention(directions=DIRECTIONS),
    Classify(),
    Joined(),
    JoinedPairs(),
    PickImage(),
    Statements(),
    Correlation(),
    TextOnly(),
    Relaxed(),
    Flips(),
)


def test_every_metric_is_defined_and_nothing_else(case: Make) -> None:
    triple = case([0.3, 0.2, 0.1], [1, 0, 1], name="triple")
    cases = [
        case(np.arange(6.0), np.arange(6) == 0, name="classes"),
        case(np.eye(2), np.eye(2), name="pair"),
        case(np.eye(4), np.eye(4), name="set"),
        Case(triple.item, replace(triple.scores, caption_CC=np.eye(3))),
    ]
    emitted = {
        outcome.metric for metric in METRICS for outcome in metric(cases, ties="wrong", tie_eps=0)
    }
    assert emitted == set(DEFINITIONS)


def test_nothing_is_defined_twice() -> None:
    assert all(name == result.name for name, result in DEFINITIONS.items())
    assert len({result.title for result in DEFINITIONS.values()}) == len(DEFINITIONS)


def test_definitions_are_whole() -> None:
    for result in DEFINITIONS.values():
        assert result.title
        assert result.meaning.endswith(".")
        assert "  " not in result.meaning
        assert result.formula


def test_definitions_state_the_chance_that_is_used() -> None:
    for name, level in CHANCE.items():
        stated = DEFINITIONS[name].chance.split(";")[0]
        top, _, bottom = stated.partition("/")
        assert int(top) / int(bottom or 1) == level, name
    for name, level in CHANCE_INDEPENDENT.items():
        assert f"1/{round(1 / level)} if both" in DEFINITIONS[name].chance


def test_recall_at_any_k() -> None:
    result = recall_definition("image_to_text@3")
    assert result.title == "Image to text R@3"
    assert "true caption is among the 3" in result.meaning
    assert DEFINITIONS["text_to_image@1"] == recall_definition("text_to_image@1")
