"""A diagnosis made by hand: every plot, tone and reference, texts that would break a page."""

from __future__ import annotations

from math import nan

from unbag.evaluation.measuring import thumbnail
from unbag.probes.base import (
    Bar,
    Bars,
    Grid,
    Known,
    Lines,
    Maps,
    Options,
    Plot,
    ProbeResult,
    Quantity,
    Scatter,
    ScatterPoint,
    Series,
    Tone,
    Verdict,
    WordMap,
)
from unbag.probes.data import world_probe_data
from unbag.probes.diagnosis.diagnose import Answer, Diagnosis, Examined
from unbag.types import Comparison, Estimate

HOSTILE = "<script>alert('no')</script> & \"quoted\""
LONG = "a_name_without_any_place_to_break_that_goes_on_and_on_" * 2
MODEL, OTHER = "tiny:base", "tiny:hard_negative"


def quantity(name: str, value: float, known: Known, *, is_rate: bool = True) -> Quantity:
    half = 0.04 if is_rate else 0.01
    estimate = Estimate(value, value - half, value + half, 120, invalid=2, is_rate=is_rate)
    return Quantity(name, f"what {name} is", estimate, known, "higher")


def plots(shift: float) -> tuple[Plot, ...]:
    groups = [f"group {i}" for i in range(8)]
    points = tuple(
        ScatterPoint(i / 40, ((i * 7) % 40) / 40 - shift, groups[i % 8], HOSTILE) for i in range(40)
    )
    layers = tuple(float(i) for i in range(6))
    rows = tuple(0.5 + i / 12 - shift for i in range(6))
    low, high = (tuple(one + end for one in rows) for end in (-0.03, 0.03))
    return (
        Scatter("Near and far", HOSTILE, "cosine", points, (("taken for the same", 0.9),), "So."),
        Bars("By relation", (
            Bar("left/right", 0.52, 0.48, 0.56, 0.5),
            Bar(LONG, 0.91, 0.88, 0.94, 0.5, HOSTILE),
            Bar("not measured", nan, nan, nan),
        ), about="Percent."),
        Bars("Cosines", (Bar("low", -0.2, -0.25, -0.15),), is_rate=False),
        Lines("By layer", "layer", "right", (
            Series("linear", layers, rows, low, high),
            Series("attentive", layers, tuple(one + 0.05 for one in rows)),
        ), chance=0.5),
        Grid("Taken for", ("left", "right"), ("left", "right", LONG),
             ((0.98, 0.02, nan), (0.4, 0.6, 0.0)), "shown", "said", HOSTILE),
    )  # fmt: skip


def answer(name: str, tone: Tone, value: float, *, is_rate: bool = True) -> Answer:
    known = Known(bag=0.5, perfect=1.0, chance=0.5) if is_rate else Known(bag=1.0)
    mine, theirs, random_model = (
        ProbeResult(name, (quantity("main", one, known, is_rate=is_rate),
                       quantity(HOSTILE, one, Known())), "main", plots(shift), (HOSTILE,))
        for one, shift in ((value, 0.0), (value - 0.2, 0.1), (0.49, 0.0))
    )  # fmt: skip
    made = Comparison(name, "main", OTHER, MODEL, 0.2, 0.1, 0.3, 120, 0.01, 0.02, "mcnemar")
    said: dict[str, Estimate | str | float] = {"share": 100 * value, "what": HOSTILE}
    verdict = Verdict(tone, "It is right in {share:.1f} % of {what}.", said)
    return Answer(
        name, f"Does it {name}?", f"Formula of {name}: {HOSTILE}", mine, verdict, random_model,
        theirs, Verdict("mixed", "The other is lower."), (made,), 1.5,
    )  # fmt: skip


def made_maps() -> tuple[Maps, ...]:
    pair = world_probe_data().pairs[0]
    ramp = tuple(tuple(x * y / 100 - 0.1 for x in range(8)) for y in range(8))
    flat = ((0.2,) * 8,) * 8
    words = (WordMap("star", ramp), WordMap(HOSTILE, flat))
    return tuple(
        Maps(name, thumbnail(pair.first), HOSTILE, words, "So.") for name in (MODEL, OTHER)
    )


def made(*, against: bool = True) -> Diagnosis:
    answers = [
        answer("order", "fails", 0.53),
        answer("agree", "holds", 0.97),
        answer("read", "mixed", 0.7),
        answer("sum", "told", 0.81, is_rate=False),
    ]
    skipped = ProbeResult("prior", skipped=f"{HOSTILE}\n  expected: a chat model")
    last = Answer("prior", "How much is the prior?", "Formula.", skipped, None)
    if not against:
        answers = [
            Answer(a.probe, a.question, a.about, a.finding, a.verdict, a.random_init)
            for a in answers
        ]
    return Diagnosis(
        Examined(MODEL, "f" * 64),
        HOSTILE,
        Options(),
        (*answers, last),
        Examined("twin", "0" * 64),
        Examined(OTHER, "e" * 64) if against else None,
        made_maps() if against else made_maps()[:1],
        (HOSTILE, LONG),
        12.0,
        {"python": "3.11"},
        "2026-01-01T00:00:00+00:00",
        f"unbag diagnose --model {HOSTILE}",
        "cpu",
    )
