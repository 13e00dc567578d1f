"""Images of claims show every base, the interval and the predicted side, and are sound SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from unbag_lab.claims import Claim, Number, Prediction
from unbag_lab.pages.figures import WIDE, claim_figure, overview_figure
from unbag_lab.verdict import REPRODUCED, Verdict, measure_prediction

A, B = Number("a", "bench", "metric"), Number("b", "bench", "metric")
ABOVE = Prediction('a < b & "c"', A, B, "above", 0.05)
BELOW = Prediction("a is below b", A, B, "below", -0.05)
WITHIN = Prediction("a is as b", A, B, "within", 0.05)


def verdict(*predictions: Prediction, values: tuple[float, ...], name: str = "one") -> Verdict:
    claim = Claim(name, "us", "it holds.", "made", predictions)
    effects = {f"tiny-{n}": value for n, value in enumerate(values)}
    return Verdict(claim, tuple(measure_prediction(one, effects) for one in predictions))


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def side(text: str) -> tuple[float, float]:
    """Left and right end of the first shaded part."""
    found = re.search(r'class="side" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text)
    assert found
    return float(found[1]), float(found[1]) + float(found[2])


def dots(text: str) -> list[float]:
    return [float(x) for x in re.findall(r'class="dot" cx="([\d.]+)"[^>]*><title>', text)]


def test_every_base_is_a_dot_with_its_name() -> None:
    text = claim_figure(verdict(ABOVE, WITHIN, values=(0.1, 0.2, 0.3)))
    assert len(dots(text)) == 6
    assert text.count("<title>tiny-1: +20.0</title>") == 2
    assert "20.0 [-4.8, +44.8] points over 3 bases: undecided" in text
    parsed(text)


@pytest.mark.parametrize(
    ("prediction", "inside", "outside"),
    [(ABOVE, 0.2, 0.0), (BELOW, -0.2, 0.0), (WITHIN, 0.02, 0.2)],
)
def test_the_shaded_side_is_the_predicted_one(
    prediction: Prediction, inside: float, outside: float
) -> None:
    text = claim_figure(verdict(prediction, values=(inside, outside)))
    low, high = side(text)
    at = dots(text)
    assert low <= at[0] <= high
    assert not low <= at[1] <= high


@pytest.mark.parametrize("values", [(), (0.1,), (0.1, 0.1), (-1.0, 3.0), (0.0, 1e-9)])
def test_any_effects_can_be_drawn(values: tuple[float, ...]) -> None:
    text = claim_figure(verdict(ABOVE, BELOW, WITHIN, values=values))
    parsed(text)
    places = [float(x) for x in re.findall(r'(?:cx|[^r]x)="([\d.-]+)"', text)]
    assert all(0 <= x <= WIDE for x in places)
    assert "nan" not in text


def test_long_sentences_are_broken() -> None:
    long = Prediction(" ".join(["word"] * 60), A, B, "above")
    lines = re.findall(r'class="says">([^<]*)<', claim_figure(verdict(long, values=(0.1,))))
    assert len(lines) == 4
    assert max(map(len, lines)) <= 98


def test_the_overview_has_a_line_for_each_prediction_that_was_run() -> None:
    ran = verdict(ABOVE, WITHIN, values=(0.1, 0.2, 0.3), name="ran")
    idle = verdict(ABOVE, values=(), name="idle")
    text = overview_figure({"Paper": [ran, idle], "Idle": [idle]})
    parsed(text)
    assert text.count(">ran<") == text.count(">Paper<") == 1
    assert "idle" not in text
    assert "Idle" not in text
    # Two predictions, and one of each kind in the legend.
    assert text.count('class="mean ') == 2 + 3
    assert REPRODUCED in text


def test_many_predictions_share_an_axis() -> None:
    some = [Prediction(f"prediction {k} {'long ' * 30}", A, B, "above", 0.05) for k in range(9)]
    text = claim_figure(verdict(*some, values=(0.1, 0.2)))
    parsed(text)
    assert len(dots(text)) == 18
    assert text.count('class="side"') == 9 + 1
    labels = re.findall(r'class="small">([^<]*long[^<]*)<', text)
    assert len(labels) == 18
    assert max(map(len, labels)) <= 50


def test_an_overview_of_nothing_is_an_image() -> None:
    parsed(overview_figure({}))


def test_of_many_predictions_the_overview_shows_the_least_sure() -> None:
    some = [Prediction(f"prediction {k}", A, B, "above", 0.1 * k) for k in range(7)]
    found = verdict(*some, values=(0.31, 0.3, 0.29), name="many")
    text = overview_figure({"Paper": [found]})
    assert text.count(">many, 1 of 7<") == 1
    assert text.count('class="mean ') == 1 + 3
    # 0.3 is neither above nor below 0.3.
    assert "<desc>prediction 3: +30.0" in text


@pytest.mark.parametrize(("values", "said"), [((1.4, 1.6), "+150.0 ▸"), ((-1.4, -1.6), "◂ -150.0")])
def test_what_is_beyond_the_axis_is_said_in_figures(values: tuple[float, ...], said: str) -> None:
    text = overview_figure({"Paper": [verdict(ABOVE, values=values)]})
    parsed(text)
    assert f">{said}<" in text
    assert "▸" not in overview_figure({"Paper": [verdict(ABOVE, values=(0.1, 0.2))]})


def test_a_number_that_is_held_against_a_level_is_drawn_as_it_is() -> None:
    level = Prediction("a is above 0.75", A, 0.75, "above")
    text = claim_figure(verdict(level, values=(0.2, 0.22, 0.24)))
    parsed(text)
    assert "97.0 [92.0, 102.0] points over 3 bases" in text
    assert "<title>tiny-0: 95.0</title>" in text
    assert ">80<" in text
    assert "+80" not in text
    low, _ = side(text)
    assert all(low < x for x in dots(text))


def test_a_small_run_has_no_mark_of_a_verdict() -> None:
    found = verdict(ABOVE, values=(0.1, 0.2, 0.3))
    small = Verdict(found.claim, found.tested, is_small=True)
    assert ": undecided" in claim_figure(small)
