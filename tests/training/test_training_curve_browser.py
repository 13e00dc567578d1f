"""The page of the curve in a real browser: no errors, no requests, no sideways scroll, dark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unbag.training.before_after import Side
from unbag.training.merge import ChosenWeight, Curve, CurvePoint, CurveValue, curve_page
from unbag.types import Estimate

if TYPE_CHECKING:
    from tests.pages import Open, Scheme


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def point(weight: float, composition: float, recognition: float) -> CurvePoint:
        rows: list[tuple[str, Side, float]] = [
            ("a-benchmark-with-a-long-name", "composition", composition),
            ("other", "recognition", recognition),
        ]
        values = (
            CurveValue(b, s, "accuracy", "micro", Estimate(v, v, v, 9), None) for b, s, v in rows
        )
        return CurvePoint(weight, "print", tuple(values))

    points = (point(0, 0.5, 0.9), point(0.5, 0.7, 0.895), point(1, 0.8, 0.8))
    curve = Curve("old", "new", points, ChosenWeight(0.5, "so"), 1.0, Path("run"))
    path = tmp_path_factory.mktemp("page") / "curve.html"
    path.write_text(curve_page(curve), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_and_asks_for_nothing(
    open_page: Open, file: Path, width: int, scheme: Scheme
) -> None:
    seen = open_page(file, width, scheme)
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.said == []
    assert seen.outside == []
    ink = page.evaluate("getComputedStyle(document.querySelector('.curve .label')).fill")
    assert ink == ("rgb(29, 33, 38)" if scheme == "light" else "rgb(228, 227, 222)")
    # From the base to the right and up: more composition lies higher, less recognition to the left.
    marks = [one.bounding_box() for one in page.query_selector_all(".curve .mark circle")]
    assert [one is not None for one in marks] == [True] * 3
    places = [(one["x"], one["y"]) for one in marks if one is not None]
    assert places[0][0] > places[1][0] > places[2][0]
    assert places[0][1] > places[1][1] > places[2][1]
