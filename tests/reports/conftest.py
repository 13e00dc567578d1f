"""A realistic run of two tiny models and a blind baseline on the world, written by hand."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from PIL import Image, ImageDraw

from unbag.types import Comparison, Estimate, EvalProtocol, Failure, Result, RunContents, RunRecord

BASE, RANDOM, BLIND = "tiny:base", "tiny:random", "caption:length"
HOSTILE = '<script>alert(1)</script> "it\'s" </svg></style> a & b'
COLOURS = {"red": "#dc2828", "blue": "#325ae6", "yellow": "#f5d732", "green": "#28a03c"}


@dataclass(frozen=True)
class Numbers:
    """A metric of the run: scores of base, random and blind, and chance."""

    base: float
    random: float
    blind: float
    chance: float | None
    ties: float = 0.0
    """Share of items on which the blind baseline is tied."""
    other_chance: float | None = None
    is_rate: bool = True

    def estimates(self, n: int) -> dict[str, Estimate]:
        shown = {BASE: self.base, RANDOM: self.random, BLIND: self.blind}
        return {
            scorer: replace(
                _estimate(value, n, self.chance, is_rate=self.is_rate),
                ties=round(self.ties * n) if scorer == BLIND else 0,
                chance_independent=self.other_chance,
            )
            for scorer, value in shown.items()
        }


def _estimate(value: float, n: int, chance: float | None, *, is_rate: bool = True) -> Estimate:
    """With a Wilson interval, z = 1.96."""
    if not is_rate:
        return Estimate(value, value - 0.004, value + 0.004, n, is_rate=False, interval="normal")
    if value > 1:  # retention is a ratio of two rates
        return Estimate(value, value - 0.3, value + 0.3, n, interval="bootstrap")
    z2 = 1.96**2
    centre = (value + z2 / (2 * n)) / (1 + z2 / n)
    half = 1.96 * math.sqrt(value * (1 - value) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Estimate(value, max(0.0, centre - half), min(1.0, centre + half), n, chance=chance)


def triples(
    base: tuple[float, float, float], blind: tuple[float, float, float], ties: float = 0.0
) -> dict[str, Numbers]:
    return {
        "original": Numbers(base[0], 0.494, blind[0], 0.5, ties),
        "augmented": Numbers(base[1], 0.262, blind[1], 1 / 3, ties, 0.25),
        "brittleness": Numbers(base[2], 0.471, blind[2], 1 / 3, ties, 0.5),
        "share_neg_like_hp": Numbers(base[0] - base[1], 0.232, 0.0, None),
        "mean_original": Numbers(0.412, 0.021, 9.4, None, is_rate=False),
        "mean_negative": Numbers(0.409, 0.021, 9.4, None, is_rate=False),
    }


def pairs(individual: float, pair: float) -> dict[str, Numbers]:
    return {
        "individual": Numbers(individual, 0.503, 0.0, 0.5, 1.0),
        "pair": Numbers(pair, 0.018, 0.0, 0.25, 1.0),
        "individual4": Numbers(individual / 2, 0.252, 0.0, 0.25, 1.0),
        "set": Numbers(pair / 12, 0.004, 0.0, 1 / 256, 1.0),
    }


def accuracy(base: float, blind: float, chance: float, ties: float = 0.0) -> dict[str, Numbers]:
    return {"accuracy": Numbers(base, chance + 0.006, blind, chance, ties)}


RETRIEVAL = {
    "text_to_image@1": Numbers(0.412, 0.001, 0.0, 0.001, 1.0),
    "image_to_text@1": Numbers(0.437, 0.002, 0.0, 0.001, 1.0),
    "text_to_image@5": Numbers(0.781, 0.005, 0.0, 0.005, 1.0),
    "retention": Numbers(0.968, 1.021, 0.0, None),
}
BENCHMARKS: dict[str, tuple[str, int, dict[str, Numbers], Mapping[str, tuple[str, ...]]]] = {
    "world-swap": ("original", 1000, triples((0.513, 0.271, 0.482), (0.0, 0.0, 0.0), 1.0),
                   {"what": ("colour", "size", "texture")}),
    "world-replace": ("original", 1000, triples((0.998, 0.941, 0.057), (0.503, 0.31, 0.35), 0.2),
                      {"what": ("colour", "shape", "size", "texture")}),
    "world-relation": ("original", 1000, triples((0.503, 0.254, 0.497), (0.446, 0.228, 0.4), 0.1),
                       {"relation": ("left of", "right of", "above", "below", "on", "under",
                                     "in front of", "behind")}),
    "world-order": ("accuracy", 800, accuracy(0.622, 0.0, 0.2, 1.0), {}),
    "world-pairs-a": ("individual", 400, pairs(0.512, 0.041), {"pair": ("left/right", "on/under")}),
    "world-pairs-b": ("individual", 400, pairs(0.507, 0.032), {}),
    "world-binding": ("group", 500, {
        "text": Numbers(0.264, 0.252, 0.0, 0.25, 1.0),
        "image": Numbers(0.231, 0.26, 0.0, 0.25, 1.0),
        "group": Numbers(0.102, 0.078, 0.0, 1 / 6, 1.0),
    }, {}),
    "world-count": ("accuracy", 800, accuracy(0.871, 0.24, 0.2),
                    {"count": ("one", "two", "three", "four", "five")}),
    "world-texture": ("accuracy", 800, accuracy(0.563, 0.552, 0.5), {}),
    "world-negation": ("accuracy", 800, accuracy(0.541, 0.712, 0.5), {}),
    "world-retrieval": ("text_to_image@1", 1000, RETRIEVAL, {}),
}  # fmt: skip
RECORD = RunRecord(
    command="unbag demo --out unbag-demo",
    started="2026-10-19T03:20:11Z",
    seed=0,
    device="cpu (2 threads)",
    versions={"unbag": "0.1.0", "python": "3.11.9", "torch": "2.5.1", "numpy": "2.1.3"},
    fingerprints={
        BASE: "sha256:9f2c41d07be35a68",
        RANDOM: "sha256:07aa99cdf1b2e344",
        "world-swap": "sha256:51f0c2aa8d937be1",
        "world-relation": "sha256:bc0e7712f4a86d05",
    },
    damaged=("world-count/00017.png",),
    truncated={BASE: 3},
)


def _results(name: str) -> list[Result]:
    headline, n, numbers, tags = BENCHMARKS[name]
    results = []
    for scorer in (BASE, RANDOM, BLIND):
        overall = {metric: found.estimates(n)[scorer] for metric, found in numbers.items()}
        if name == "world-count" and scorer == BASE:
            overall["accuracy"] = replace(overall["accuracy"], invalid=1)
        by_tag = {}
        for tag, values in tags.items():
            for at, value in enumerate(values):
                middle = overall[headline].value
                shifted = min(max(middle + 0.03 * math.sin(at + middle), 0), 1)
                part = n // len(values)
                estimate = _estimate(shifted, part, overall[headline].chance)
                by_tag[f"{tag}={value}"] = {headline: estimate}
        is_blind = scorer == BLIND
        protocol = EvalProtocol(scoring="caption only" if is_blind else "cosine")
        results.append(
            Result(
                name,
                scorer,
                protocol,
                "micro",
                headline,
                overall,
                by_tag,
                RECORD,
                is_blind=is_blind,
            )
        )
    return results


def draw(*shapes: tuple[str, str, int, int]) -> str:
    """A small scene as a data address: each shape a kind, a colour and a centre."""
    image = Image.new("RGB", (64, 64), (28, 30, 36))
    pen = ImageDraw.Draw(image)
    for kind, colour, x, y in shapes:
        box = (x - 10, y - 10, x + 10, y + 10)
        if kind == "circle":
            pen.ellipse(box, fill=COLOURS[colour])
        elif kind == "square":
            pen.rectangle(box, fill=COLOURS[colour])
        else:
            pen.polygon([(x, y - 11), (x + 11, y + 9), (x - 11, y + 9)], fill=COLOURS[colour])
    file = io.BytesIO()
    image.save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


LEFT = draw(("circle", "red", 16, 32), ("square", "blue", 48, 32))
RIGHT = draw(("square", "blue", 16, 32), ("circle", "red", 48, 32))
ABOVE = draw(("circle", "red", 32, 15), ("square", "blue", 32, 49))
BELOW = draw(("circle", "red", 32, 49), ("square", "blue", 32, 15))
SWAPPED = draw(("circle", "blue", 16, 32), ("square", "red", 48, 32))


def _failures() -> tuple[Failure, ...]:
    words = ("left of", "right of", "above", "below")
    eye = tuple(tuple(p == c for c in range(4)) for p in range(4))
    near = tuple(tuple(0.41 + 0.002 * ((3 * p + 5 * c) % 7) for c in range(4)) for p in range(4))
    triangle = draw(("triangle", "yellow", 18, 44), ("circle", "green", 46, 20))
    kinds = ("original", "swap_attributes", "conjunct_swap")
    return (
        Failure("world-swap", BASE, "swap-00041", "original", (LEFT,),
                ("a red circle and a blue square", "a blue circle and a red square",
                 "a blue square and a red circle"), kinds, ((True, False, True),),
                ((0.4312, 0.4391, 0.4287),), {"what": "colour"}),
        Failure("world-swap", BASE, "swap-00107", "original", (triangle,),
                ("a yellow triangle and a green circle", "a green triangle and a yellow circle",
                 "a green circle and a yellow triangle"), kinds, ((True, False, True),),
                ((0.4472, 0.4472, 0.4503),), {"what": "colour"}),
        Failure("world-swap", RANDOM, "swap-00002", "original", (LEFT,),
                ("a red circle and a blue square", "a blue circle and a red square",
                 "a blue square and a red circle"), kinds, ((True, False, True),),
                ((0.0211, 0.0214, 0.0209),), {"what": "colour"}),
        Failure("world-relation", BASE, "relation-00003", "original", (LEFT,),
                ("a red circle to the left of a blue square",
                 "a red circle to the right of a blue square",
                 "a blue square to the right of a red circle"), (), ((True, False, True),),
                ((0.4511, 0.4529, 0.4498),), {"relation": "left of"}),
        Failure("world-pairs-a", BASE, "pairs-00012", "individual", (LEFT, RIGHT, ABOVE, BELOW),
                tuple(f"a red circle {word} a blue square" for word in words), (), eye, near),
        Failure("world-binding", BASE, "binding-00009", "group", (LEFT, SWAPPED),
                ("a red circle and a blue square", "a blue circle and a red square"), (),
                ((True, False), (False, True)), ((0.431, 0.433), (0.432, float("nan")))),
        Failure("world-retrieval", BASE, "query-4", "text_to_image@1", (SWAPPED, LEFT, ABOVE),
                ("a red circle and a blue square",), (), ((False,), (True,), (False,)),
                ((0.47,), (0.46,), (0.44,))),
    )  # fmt: skip


COMPARISONS = (
    Comparison("world-replace", "original", RANDOM, BASE, 0.504, 0.473, 0.535, 1000, 1e-90, 2e-89),
    Comparison("world-replace", "original", BLIND, BASE, 0.495, 0.464, 0.526, 1000, 1e-88, 1e-87),
    Comparison("world-relation", "original", RANDOM, BASE, 0.009, -0.035, 0.053, 1000, 0.71, 1.0),
    Comparison("world-negation", "accuracy", BLIND, BASE, -0.171, -0.22, -0.12, 800, 1e-9, 1e-8),
)


def make_run() -> RunContents:
    results = tuple(result for name in BENCHMARKS for result in _results(name))
    return RunContents(RECORD, results, COMPARISONS, _failures())


def make_hostile(run: RunContents) -> RunContents:
    """The same run with a hostile text in every text field."""
    first, failure = run.results[0], run.failures[0]
    bad = replace(
        first, benchmark=HOSTILE, scorer=HOSTILE, by_tag={f"{HOSTILE}={HOSTILE}": first.overall}
    )
    shown = replace(
        failure, benchmark=HOSTILE, scorer=HOSTILE, item=HOSTILE,
        captions=(HOSTILE, *failure.captions[1:]), tags={HOSTILE: HOSTILE},
        images=("https://example.com/spy.png",),
    )  # fmt: skip
    record = replace(run.record, command=HOSTILE, versions={HOSTILE: HOSTILE}, damaged=(HOSTILE,))
    compared = replace(run.comparisons[0], benchmark=HOSTILE, first=HOSTILE, second=HOSTILE)
    return RunContents(
        record, (bad, *run.results), (compared, *run.comparisons), (shown, *run.failures)
    )


@pytest.fixture(scope="session")
def run() -> RunContents:
    return make_run()


@pytest.fixture(scope="session")
def hostile_run(run: RunContents) -> RunContents:
    return make_hostile(run)


@pytest.fixture(scope="session")
def hostile_text() -> str:
    return HOSTILE
