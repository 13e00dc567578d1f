"""Small probes, material and models whose answers are known, for tests of diagnoses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.tiny import Tiny, untrained
from unbag.models.tiny import load as load_tiny
from unbag.probes.base import (
    Bar,
    Bars,
    Grid,
    ImagePair,
    Known,
    Lines,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Row,
    Scatter,
    ScatterPoint,
    Series,
    Verdict,
    mean,
    statistic,
)
from unbag.probes.data import world_probe_data
from unbag.runs.progress import Progress
from unbag.types import Estimate, IntArray

OPTIONS = Options(resamples=200)


def small_material(*, pairs: int = 4, rows: int = 6) -> ProbeData:
    """A left/right pair, an exchange of colours, and the first rows."""
    every = world_probe_data()
    kinds = ("left/right", "swap_attributes")
    kept = [pair for kind in kinds for pair in every.pairs if pair.relation == kind]
    half = pairs // 2
    chosen: list[ImagePair] = [*kept[:half], *kept[200 : 200 + half]]
    few: tuple[Row, ...] = every.rows[:rows]
    return ProbeData("a few drawings", few, tuple(chosen), is_world=True, notes=("a note",))


class Counted(Tiny):
    """Counts every image and every caption that goes through an encoder."""

    def __init__(self, name: str = "counted") -> None:
        base = load_tiny("base")
        super().__init__(untrained(base.config, seed=3), name=name, device="cpu")
        self.images_seen = 0
        self.captions_seen: list[str] = []

    def encode_images(self, pixels: Tensor) -> Tensor:
        self.images_seen += len(pixels)
        return super().encode_images(pixels)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        self.captions_seen += list(captions)
        return super().encode_texts(captions)


class Plain:
    """Two encoders and nothing else: no patches, no layers, no twin."""

    name, fingerprint, device = "plain", "plain/1", "cpu"
    scale, bias, context = 1.0, 0.0, 77

    def prepare(self, image: object) -> Tensor:
        return torch.from_numpy(np.asarray(image, dtype=np.float32).copy())

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [len(caption.split()) for caption in captions]

    def encode_images(self, pixels: Tensor) -> Tensor:
        return torch.nn.functional.normalize(pixels.mean(dim=(1, 2)) + 1, dim=-1)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        rows = torch.tensor([[len(c), c.count("e"), 1.0] for c in captions])
        return torch.nn.functional.normalize(rows, dim=-1)


def _say(finding: ProbeResult) -> Verdict:
    values: dict[str, Estimate | str | float] = {
        "probe": finding.probe,
        "found": finding[finding.headline].estimate,
    }
    return Verdict("mixed", "{probe} gives {found:value}.", values)


def _share(subject: ProbedModel, material: ProbeData, options: Options, _: Progress) -> ProbeResult:
    """Rows whose caption beats the negative, and a statistic of the same."""
    assert subject.space is not None
    rows = [row for row in material.rows if row.negative is not None]
    image_ND = subject.space.images([row.image for row in rows])
    true_N = (image_ND * subject.space.captions([row.caption for row in rows])).sum(axis=1)
    false_N = (image_ND * subject.space.captions([str(r.negative) for r in rows])).sum(axis=1)
    gap_N = true_N - false_N

    def middle(index: IntArray) -> float:
        return float(np.median(gap_N[index]))

    known = Known(bag=0.5, perfect=1.0, chance=0.5)
    share = mean("right", (gap_N > 0).astype(float), about="captions that win", options=options,
                 units=[row.id for row in rows], known=known, better="higher",
                 is_rate=True)  # fmt: skip
    gap = statistic("gap", middle, len(rows), about="median of the gap", options=options)
    found = share.estimate
    plots = (
        Scatter("Scores", "true", "false", tuple(
            ScatterPoint(float(t), float(f), row.kind, row.id)
            for t, f, row in zip(true_N, false_N, rows, strict=True)), (("a line", 0.1),)),
        Bars("Bars", (Bar("right", found.value, found.low, found.high, 0.5, "a remark"),)),
        Lines("Layers", "layer", "right", (Series("first", (0, 1), (0.5, 0.75), (0.4, 0.7),
                                                  (0.6, 0.8)),), chance=0.5),
        Grid("Taken for", ("left", "right"), ("left", "right"), ((0.75, 0.25), (float("nan"), 1)),
             "shown", "said"),
    )  # fmt: skip
    return ProbeResult("share", (share, gap), headline="right", plots=plots, notes=("six rows",))


SHARE = Probe("share", "How often does the true caption win?", "Wins over rows.", _share, _say)


def _asked_again(
    subject: ProbedModel, material: ProbeData, options: Options, p: Progress
) -> ProbeResult:
    found = _share(subject, material, options, p)
    return ProbeResult("again", found.quantities[:1], headline="right")


AGAIN = Probe("again", "And once more?", "The same again.", _asked_again, _say)


def _broken(*_: object) -> ProbeResult:
    raise UnbagError("no such scene", expected="another one", hint="draw it")


BROKEN = Probe("broken", "Does it break?", "It does.", _broken, _say)


def _skips(subject: ProbedModel, material: ProbeData, options: Options, _: Progress) -> ProbeResult:
    return ProbeResult("skips", skipped=f"{subject.name} has <b>no</b> teeth")


SKIPS = Probe("skips", "Does it bite?", "It cannot.", _skips, _say)
