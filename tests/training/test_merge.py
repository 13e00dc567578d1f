"""Mixed weights, the curve over the mixing weight, and its page."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console
from syrupy.assertion import SnapshotAssertion
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.models.tiny import Tiny, untrained
from unbag.training.before_after import Side
from unbag.training.encoders.adapters import make_trainable
from unbag.training.merge import (
    ChosenWeight,
    Curve,
    CurvePoint,
    CurveValue,
    Mix,
    check_weights,
    choose,
    curve_axis,
    curve_csv,
    curve_json,
    curve_markdown,
    curve_page,
    curve_table,
    interpolate,
    measure_curve,
    mix,
    ticks_of,
)
from unbag.types import DualEncoder, Estimate

from .export_models import open_clip_config, save_clip, save_open_clip
from .small_world import CONFIG, FIND, SWAP, WORDS, small

if TYPE_CHECKING:
    from tests.pages import Open, Scheme


FLOATS = st.floats(-1024, 1024, width=32)


def perturbed(encoder: DualEncoder, name: str) -> DualEncoder:
    trainable = make_trainable(encoder, device="cpu")
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in trainable.module.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=rng))
    return trainable.encoder(name)


def vectors(encoder: DualEncoder) -> Tensor:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    pixels = encoder.prepare(Image.fromarray(noise))[None]
    captions = ["a red star", "a blue cup"]
    return torch.cat([encoder.encode_images(pixels), encoder.encode_texts(captions)])


def test_a_quarter_and_half_precision_by_hand() -> None:
    base = {"w": torch.tensor([1.0, -4.0]), "place": torch.tensor([0, 1])}
    tuned = {"w": torch.tensor([3.0, 4.0]), "place": torch.tensor([0, 1])}
    mixed = interpolate(base, tuned, 0.25)
    assert mixed["w"].tolist() == [1.5, -2.0]
    assert mixed["place"].tolist() == [0, 1]
    assert base["w"].tolist() == [1.0, -4.0]
    base, tuned = ({"w": torch.tensor([x], dtype=torch.float16)} for x in (1.0, 1.0009765625))
    half = interpolate(base, tuned, 0.5)["w"]
    assert (half.dtype, half.item()) == (torch.float32, 1.00048828125)
    with pytest.raises(UnbagError, match="place holds other integers"):
        interpolate({"place": torch.tensor([0])}, {"place": torch.tensor([1])}, 0.5)


@given(FLOATS, FLOATS)
def test_ends_are_the_models_bit_for_bit(first: float, second: float) -> None:
    base, tuned = {"w": torch.tensor([first, -0.0])}, {"w": torch.tensor([second, -0.0])}
    for weight, state in ((0.0, base), (1.0, tuned)):
        mixed = interpolate(base, tuned, weight)
        assert mixed["w"].numpy().tobytes() == state["w"].numpy().tobytes()


def saved(kind: str, folder: Path) -> DualEncoder:
    if kind == "tiny":
        return small(0)
    pytest.importorskip("open_clip" if kind == "open_clip" else "transformers")
    config = open_clip_config(quick_gelu=True)
    name = save_open_clip(folder, config) if kind == "open_clip" else save_clip(folder)
    encoder = load_model(name)
    assert isinstance(encoder, DualEncoder)
    return encoder


@pytest.mark.parametrize("kind", ["tiny", "open_clip", "hf"])
def test_mixes_of_models(kind: str, tmp_path: Path) -> None:
    base = saved(kind, tmp_path / "model")
    tuned = perturbed(base, "tuned")
    before = vectors(base)
    mixes = mix(base, tuned, (0.0, 0.5, 1.0))
    assert [item.weight for item in mixes] == [0.0, 0.5, 1.0]
    start, half, end = (item.encoder for item in mixes)
    assert [start.name, half.name, end.name] == ["mix 0", "mix 0.5", "mix 1"]
    assert type(half) is type(base)
    assert torch.equal(vectors(start), before)
    assert torch.equal(vectors(end), vectors(tuned))
    assert torch.equal(vectors(base), before)
    # The logarithm of the scale is what is mixed.
    assert half.scale == pytest.approx(sqrt(base.scale * tuned.scale), rel=1e-5)
    assert len({start.fingerprint, half.fingerprint, end.fingerprint}) == 3
    if kind == "tiny":
        # The fingerprint is of all weights, so the ends are the models themselves.
        assert (start.fingerprint, end.fingerprint) == (base.fingerprint, tuned.fingerprint)


def test_half_is_the_mean_of_all_weights() -> None:
    base, tuned = small(0), small(1)
    (half,) = mix(base, tuned, [0.5])
    network = untrained(CONFIG, seed=0)
    both = (base.network.state_dict(), tuned.network.state_dict())
    network.load_state_dict({key: (both[0][key] + both[1][key]) / 2 for key in both[0]})
    assert torch.equal(vectors(half.encoder), vectors(Tiny(network, name="by hand")))


class Longer(Tiny):
    """Counts other tokens."""

    def count_tokens(self, captions: object) -> list[int]:
        return [9]


class Mirrored(Tiny):
    """Prepares images in another way."""

    def prepare(self, image: Image.Image) -> Tensor:
        return super().prepare(image).flip(-1)


OTHER_BASE = "name the model that the fine-tuning started from as --base"


@pytest.mark.parametrize(
    ("tuned", "messages"),
    [
        (small(0, name="wide", config=replace(CONFIG, joint=12)),
         ["tiny:0 and wide differ in architecture: ", "is 8 x 8 in tiny:0, 12 x 8 in wide"]),
        (small(0, name="deep", config=replace(CONFIG, caption_depth=2)),
         ["is only in deep; ", "; and 9 more"]),
        (small(0, name="turned", config=replace(CONFIG, words=WORDS[::-1])),
         ["turned compute different vectors from the same weights", "tokenizer, vocabulary and"]),
        (Longer(untrained(CONFIG, seed=0), name="longer"), ["have different tokenizers"]),
        (Mirrored(untrained(CONFIG, seed=0), name="mirrored"),
         ["tiny:0 and mirrored prepare an image differently"]),
    ],
    ids=lambda value: value.name if isinstance(value, Tiny) else "",
)  # fmt: skip
def test_models_that_cannot_be_mixed(tuned: Tiny, messages: list[str]) -> None:
    with pytest.raises(UnbagError) as caught:
        mix(small(0), tuned, [0.5])
    assert all(message in str(caught.value) for message in (*messages, OTHER_BASE)), caught.value


SIDES: dict[str, Side] = {"small-swap": "composition", "small-find": "recognition"}


def mixes(weights: tuple[float, ...] = (0.0, 0.5, 1.0)) -> tuple[Mix, ...]:
    return mix(small(0), small(1), weights)


def measured(out: Path, some_mixes: tuple[Mix, ...], pick: float | None = 0.5) -> Curve:
    return measure_curve(
        some_mixes, names=("old", "new"), benchmarks=[SWAP, FIND], sides=SIDES, out=out, pick=pick
    )


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> Curve:
    return measured(tmp_path_factory.mktemp("curve") / "run", mixes())


def point(weight: float, composition: float, recognition: float) -> CurvePoint:
    """Two benchmarks and one of brittleness, which must not count."""
    rows: list[tuple[str, Side, str, float]] = [
        ("a", "composition", "augmented", composition),
        ("a", "composition", "brittleness", 0.9),
        ("b", "recognition", "accuracy", recognition),
        ("b", "recognition", "brittleness", 0.9),
        ("c", "neither", "tau_c", 0.1),
    ]
    values = (CurveValue(b, s, m, "micro", Estimate(v, v, v, 10), None) for b, s, m, v in rows)
    return CurvePoint(weight, "print", tuple(values))


def test_every_weight_has_every_number(curve: Curve) -> None:
    assert [p.weight for p in curve.points] == [0.0, 0.5, 1.0]
    for item in curve.points:
        some_curve = {(v.benchmark, v.metric): v for v in item.values}
        assert set(some_curve) == {
            ("small-swap", "augmented"),
            ("small-swap", "brittleness"),
            ("small-find", "text_to_image@1"),
        }
        assert some_curve["small-swap", "augmented"].estimate.n == 24
        assert some_curve["small-find", "text_to_image@1"].estimate.n == 12
        assert item.composition == some_curve["small-swap", "augmented"].estimate.value
        assert item.recognition == some_curve["small-find", "text_to_image@1"].estimate.value
        assert item.brittleness == some_curve["small-swap", "brittleness"].estimate.value


def test_differences_are_from_weight_0(curve: Curve) -> None:
    start = {(v.benchmark, v.metric): v.estimate.value for v in curve.points[0].values}
    assert all(value.change is None for value in curve.points[0].values)
    for item in curve.points[1:]:
        for value in item.values:
            assert value.change is not None
            assert (value.change.first, value.change.second) == ("mix 0", f"mix {item.weight:g}")
            apart = value.estimate.value - start[value.benchmark, value.metric]
            assert value.change.difference == pytest.approx(apart, abs=1e-12)


def test_a_stopped_curve_goes_on(
    curve: Curve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_mixes = mixes()

    def stop(captions: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(some_mixes[2].encoder, "encode_texts", stop)
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "run", some_mixes)
    again = mixes()
    # What was scored before the stop is not asked for again.
    monkeypatch.setattr(again[0].encoder, "encode_texts", stop)
    monkeypatch.setattr(again[1].encoder, "encode_texts", stop)
    some_curve = measured(tmp_path / "run", again)
    assert replace(some_curve, folder=curve.folder) == curve


def test_the_highest_composition_within_the_budget_is_chosen() -> None:
    points = [point(0, 0.5, 0.9), point(0.5, 0.7, 0.89), point(1, 0.8, 0.88)]
    assert [choose(points, budget).weight for budget in (0.5, 1.0, 2.0)] == [0, 0.5, 1]
    reason = choose(points, 0.5).why
    assert "lose at most 0.5 points of recognition" in reason
    assert "chosen on these benchmarks" in reason
    assert "at most 1 point of" in choose(points).why
    # Of equals the one closest to the base.
    equal = [point(0, 0.5, 0.9), point(0.5, 0.7, 0.9), point(1, 0.7, 0.95)]
    assert choose(equal).weight == 0.5
    with pytest.raises(UnbagError, match="a weight could not be chosen: a side has no number"):
        choose([replace(point(0, 0.5, 0.5), values=())])


def test_weights_are_sorted_and_start_at_the_base() -> None:
    assert check_weights([1, 0.5, 0.5], None) == (0.0, 0.5, 1.0)
    assert check_weights([1], 0.3) == (0.0, 0.3, 1.0)
    for weight in (-0.1, 1.5, float("nan")):
        with pytest.raises(UnbagError, match=r"the weight .*\n  expected: a number from 0 to 1"):
            check_weights([0.5, weight], None)
    with pytest.raises(UnbagError, match="no weight besides 0, which is the base itself"):
        check_weights([0.0], None)


def test_one_side_alone_needs_a_weight(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="no recognition benchmark among small-swap") as caught:
        measure_curve(
            mixes(),
            names=("old", "new"),
            benchmarks=[SWAP],
            sides={"small-swap": "composition"},
            out=tmp_path / "run",
        )
    assert "choose the weight yourself with --pick" in str(caught.value)


def test_json_and_csv_hold_every_number(curve: Curve) -> None:
    content = json.loads(curve_json(curve))
    assert content["chosen"] == {"weight": 0.5, "why": "given with --pick", "budget": None}
    assert [p["weight"] for p in content["points"]] == [0, 0.5, 1]
    assert content["points"][1]["composition"] == curve.points[1].composition
    rows = list(csv.DictReader(StringIO(curve_csv(curve))))
    assert len(rows) == 3 * 3
    values = [value for p in curve.points for value in p.values]
    assert [float(row["value"]) for row in rows] == [value.estimate.value for value in values]
    assert [row["is_chosen"] for row in rows] == ["False"] * 3 + ["True"] * 3 + ["False"] * 3
    assert {row["difference"] for row in rows[:3]} == {""}


def test_the_table_and_the_card(curve: Curve, snapshot: SnapshotAssertion) -> None:
    points = (point(0, 0.5, 0.9), point(1, 0.625, 0.89))
    console = Console(file=StringIO(), width=120)
    console.print(curve_table(Curve("old", "new", points, ChosenWeight(1, "so"), 1.0, Path("run"))))
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == snapshot(name="table")
    lines = curve_markdown(curve).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 3
    assert table[2].startswith("| composition | small-swap | augmented | ")
    assert "- 0.5 of the tuned weights: given with --pick." in lines


def test_the_page_shows_points_and_escapes_names(curve: Curve) -> None:
    page = curve_page(replace(curve, base="<script>alert(1)</script>", budget=1.0))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count('<g class="mark s0">') == 3
    assert page.count('<circle class="ring"') == 1
    assert "weight 0.5: recognition" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_overlapping_points_share_a_label_and_one_side_has_no_curve() -> None:
    points = (point(0, 0.5, 0.9), point(0.5, 0.5, 0.9), point(1, 0.8, 0.5))
    page = curve_page(Curve("old", "new", points, ChosenWeight(1, "so"), None, Path("run")))
    assert ">0, 0.5</text>" in page
    # Without benchmarks of both sides there is no curve.
    alone = replace(point(0, 0.5, 0.9), values=point(0, 0.5, 0.9).values[:1])
    page = curve_page(Curve("a", "b", (alone,), ChosenWeight(0, "so"), None, Path("run")))
    assert "No curve: it needs benchmarks of both" in page


def test_axis_by_hand() -> None:
    axis = curve_axis([0.5, 0.88])
    # A margin of .12 at each end: .38 is .76 of the axis, which is .5 long.
    assert (axis.low, axis.high) == pytest.approx((0.44, 0.94))
    assert axis.part(0.69) == pytest.approx(0.5)
    assert ticks_of(axis) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9])

    assert max(ticks_of(curve_axis([0.9, 1.0]))) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = "a-benchmark-with-a-long-name"
    points = tuple(
        replace(p, values=(replace(p.values[0], benchmark=name), *p.values[1:]))
        for p in (point(0, 0.5, 0.9), point(0.5, 0.7, 0.895), point(1, 0.8, 0.8))
    )
    curve = Curve("old", "new", points, ChosenWeight(0.5, "so"), 1.0, Path("run"))
    path = tmp_path_factory.mktemp("page") / "curve.html"
    path.write_text(curve_page(curve), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_in_a_browser(open_page: Open, file: Path, width: int, scheme: Scheme) -> None:
    opened = open_page(file, width, scheme)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.said == []
    assert opened.outside == []
    ink = page.evaluate("getComputedStyle(document.querySelector('.curve .label')).fill")
    assert ink == ("rgb(29, 33, 38)" if scheme == "light" else "rgb(228, 227, 222)")
    # From the base to the right and up: more composition lies higher, less recognition to the left.
    marks = [item.bounding_box() for item in page.query_selector_all(".curve .mark circle")]
    assert [item is not None for item in marks] == [True] * 3
    places = [(item["x"], item["y"]) for item in marks if item is not None]
    assert places[0][0] > places[1][0] > places[2][0]
    assert places[0][1] > places[1][1] > places[2][1]
