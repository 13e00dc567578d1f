"""The probe transplant: parts of models, their combinations and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.huggingface.loading import load as load_hf
from unbag.models.tiny import Tiny, untrained
from unbag.probes.base import Grid, Options, ProbeData, ProbedModel, ProbeResult, Row, mean
from unbag.probes.reference_spaces import bag_of_words_space, constructed_subject
from unbag.probes.sampling import choose_rows
from unbag.probes.space import EncoderSpace
from unbag.probes.transplant import (
    PARTS,
    SOURCES,
    TRANSPLANT,
    Combination,
    alone,
    credits,
    encode,
    encode_variants,
    lost,
    open_donors,
    parts_of,
    transplant,
    wins,
)
from unbag.registry import find
from unbag.runs.progress import Silent
from unbag.scorers.cosine import Cosine
from unbag.training.encoders.adapters import make_trainable
from unbag.types import DualEncoder, FloatArray

from .asking import run_probe
from .small_models import CONFIG, WORDS, perturbed, rows, small


def vectors(encoder: DualEncoder) -> tuple[Tensor, Tensor]:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    pixels = encoder.prepare(Image.fromarray(noise))[None]
    return encoder.encode_images(pixels), encoder.encode_texts(["a red cross", "a"])


def test_parts_of_the_tiny_encoder() -> None:
    trainable = make_trainable(small(0), device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == {"picture.project.weight", "caption.project.weight", "log_scale"}
    assert parts.image == {n for n in names if n.startswith("picture.")} - parts.read_out
    assert parts.text == {n for n in names if n.startswith("caption.")} - parts.read_out
    assert len(parts.image) + len(parts.text) + len(parts.read_out) == len(names)
    assert parts.notes == ()


def test_eight_combinations_and_their_ends() -> None:
    base, other = small(0), small(1)
    result = transplant(base, other)
    assert [one.choice for one in result] == [
        Combination(p, t, r) for p, t, r in product(SOURCES, repeat=3)
    ]
    # The fingerprint is of all weights, so the ends are the models themselves.
    assert result[0].encoder.fingerprint == base.fingerprint
    assert result[-1].encoder.fingerprint == other.fingerprint
    assert len({one.encoder.fingerprint for one in result}) == 8
    assert result[1].encoder.name == "images of tiny:0, captions of tiny:0, read-out of tiny:1"
    assert result[1].encoder.scale == other.scale
    for one in result:
        assert isinstance(one.encoder, Tiny)
        state = one.encoder.network.state_dict()
        for place, source in {
            "picture.norm.weight": one.choice.image,
            "caption.tokens.weight": one.choice.text,
            "picture.project.weight": one.choice.read_out,
            "caption.project.weight": one.choice.read_out,
        }.items():
            wanted = (base if source == "base" else other).network.state_dict()[place]
            assert torch.equal(state[place], wanted), (one.choice, place)


HF = {
    "clip": {"visual_projection.weight", "text_projection.weight", "logit_scale"},
    "siglip": {"text_model.head.weight", "text_model.head.bias", "logit_scale", "logit_bias"},
    "align": {"text_projection.weight", "text_projection.bias", "log_scale"},
}


@pytest.mark.parametrize("kind", HF)
def test_models_of_transformers(hf_folder: Callable[[str], Path], kind: str) -> None:
    base = load_hf(str(hf_folder(kind)))
    assert isinstance(base, DualEncoder)
    trainable = make_trainable(base, device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == HF[kind]
    assert parts.image | parts.text | parts.read_out == names
    assert parts.image == {n for n in names if n.startswith("vision_model.")}
    assert len(parts.image) + len(parts.text) + len(parts.read_out) == len(names)
    assert bool(parts.notes) == (kind in ("siglip", "align"))
    other = perturbed(base, "other", size=0.05)
    result = transplant(base, other)
    for whole, ends in ((base, result[0]), (other, result[-1])):
        assert all(map(torch.equal, vectors(ends.encoder), vectors(whole)))
    assert len(result) == 8
    assert type(result[3].encoder) is type(base)
    mixed = {one.choice: one.encoder for one in result}[Combination("other", "base", "other")]
    assert not torch.equal(vectors(mixed)[1], vectors(other)[1])


class _NoProjection:
    """Encoders of two layers without a projection."""

    name = "plain"

    def __init__(self) -> None:
        self.module: Any = nn.Module()
        self.module.eyes, self.module.words = nn.Linear(2, 2), nn.Linear(2, 2)
        self.module.eyes.register_buffer("grid", torch.ones(2))
        self.module.register_buffer("mask", torch.ones(2))
        self.module.scale = nn.Parameter(torch.tensor(1.0))
        self.image_layers = [[self.module.eyes.weight], [self.module.eyes.bias]]
        self.text_layers = [[self.module.words]]
        self.temperature = [self.module.scale]


def test_without_a_projection_there_are_two_parts() -> None:
    parts = parts_of(_NoProjection())  # type: ignore[arg-type]
    assert parts.read_out == frozenset()
    # A buffer right in the image encoder is the encoder's; the scale goes with the text.
    assert parts.image == {"eyes.weight", "eyes.bias", "eyes.grid"}
    assert parts.text == {"words.weight", "words.bias", "scale", "mask"}
    assert parts.notes == ("neither encoder has a separate projection: only encoders are swapped",)


def test_encoders_that_share_weights_are_refused() -> None:
    plain = _NoProjection()
    plain.text_layers = [[plain.module.eyes, plain.module.words]]
    with pytest.raises(UnbagError, match=r"plain cannot be split: .* share 2 weights"):
        parts_of(plain)  # type: ignore[arg-type]


class _Mirrored(Tiny):
    def prepare(self, image: Image.Image) -> Tensor:
        return super().prepare(image).flip(-1)


class _Chat:
    name = "chat"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            small(0, name="wide", config=replace(CONFIG, joint=12)),
            r"tiny:0 and wide differ in architecture: [\s\S]*name that one as --against",
        ),
        (
            small(0, name="turned", config=replace(CONFIG, words=WORDS[::-1])),
            r"compute different vectors from the same[\s\S]*name that one as --against",
        ),
        (
            _Mirrored(untrained(CONFIG, seed=0), name="mirrored"),
            "tiny:0 and mirrored prepare an image differently",
        ),
        (_Chat(), r"chat cannot be split into two encoders[\s\S]*have no two encoders"),
    ],
    ids=["architecture", "vocabulary", "preprocessing", "no encoders"],
)
def test_models_whose_parts_do_not_fit_are_refused(other: DualEncoder, message: str) -> None:
    with pytest.raises(UnbagError, match=message) as error:
        transplant(small(0), other)
    assert "--base" not in str(error.value)


QUICK = Options(resamples=300)


def subject(encoder: DualEncoder, other: ProbedModel | None = None) -> ProbedModel:
    return ProbedModel(encoder.name, encoder, EncoderSpace(encoder), Cosine(encoder), other=other)


def measure(
    model: DualEncoder, base: DualEncoder, some: tuple[Row, ...] | None = None
) -> ProbeResult:
    data = ProbeData("rows", rows() if some is None else some)
    return run_probe(TRANSPLANT, subject(model, subject(base)), data, QUICK)


def test_four_encoders_give_the_scores_of_all_eight() -> None:
    base = perturbed(small(0), "base", size=0.5)
    other = perturbed(small(1), "other", size=0.5, seed=4)
    some = rows()
    donors = open_donors(base, other)
    spaces = EncoderSpace(base), EncoderSpace(other)
    encoded = encode_variants(donors, spaces, some, Silent())
    assert len(encoded) == 4
    right = credits(donors.choices, encoded)
    margins = set()
    for one in transplant(base, other):
        whole = encode(EncoderSpace(one.encoder), some)
        read_out = one.choice.read_out
        assert read_out is not None
        images, text = encoded[one.choice.image, read_out], encoded[one.choice.text, read_out]
        np.testing.assert_array_equal(images.image_ND, whole.image_ND)
        np.testing.assert_array_equal(text.caption_ND, whole.caption_ND)
        np.testing.assert_array_equal(text.negative_ND, whole.negative_ND)
        assert right[one.choice].tolist() == wins(whole.image_ND, whole).tolist()
        margins.add(float((whole.image_ND * (whole.caption_ND - whole.negative_ND)).sum()))
    assert len(margins) == 8


@pytest.mark.parametrize(
    ("only", "part"), [("caption.blocks", "text encoder"), ("picture.blocks", "image encoder")]
)
def test_a_change_in_one_encoder_is_placed_there(
    only: str, part: str, snapshot: SnapshotAssertion
) -> None:
    base = perturbed(small(0), "base", size=0.5)
    repaired = perturbed(base, "repaired", only=only, size=0.5, seed=4)
    result = measure(repaired, base, _only_second(base, repaired))
    assert result["swap: none"].estimate.value == 0.0
    assert result["swap: difference"].estimate.value == 1.0
    # All else is the same, so the part alone is the whole.
    assert result[f"swap: {part} alone"].estimate.value == 1.0
    assert result[f"swap: lost without {part}"].estimate.value == 1.0
    assert result["swap: read-out alone"].estimate.value == 0.0
    verdict = TRANSPLANT.say(result)
    assert verdict.tone == "told"
    assert verdict.sentence == snapshot


def _only_second(base: DualEncoder, repaired: DualEncoder) -> tuple[Row, ...]:
    """Rows, their captions turned where needed, in which the base errs and the other does not."""
    margins = [_margins(EncoderSpace(encoder), rows(160)) for encoder in (base, repaired)]
    turned = [
        row if gap > 0 else replace(row, caption=str(row.negative), negative=row.caption)
        for row, gap in zip(rows(160), margins[1], strict=True)
    ]
    is_kept_N = (margins[0] * margins[1] < 0) & (np.minimum(*map(np.abs, margins)) > 1e-5)
    result = [
        replace(row, kind="swap") for row, kept in zip(turned, is_kept_N, strict=True) if kept
    ]
    assert len(result) >= 20
    return tuple(result)


def _margins(space: EncoderSpace, some: tuple[Row, ...]) -> FloatArray:
    image_ND = space.images([row.image for row in some])
    true_ND = space.captions([row.caption for row in some])
    false_ND = space.captions([str(row.negative) for row in some])
    result: FloatArray = (image_ND * (true_ND - false_ND)).sum(axis=1)
    return result


def test_quantities_and_the_grid() -> None:
    base, other = small(0), perturbed(small(0), "other")
    result = measure(other, base, rows(48))
    # Two kinds of 24 rows, all kinds, each with 8 shares, a difference and 2 effects of 3 parts.
    assert len(result.quantities) == 3 * (8 + 1 + 6)
    assert result.headline.endswith(": difference")
    difference = result["all kinds: all"].estimate.value - result["all kinds: none"].estimate.value
    assert result["all kinds: difference"].estimate.value == pytest.approx(difference)
    with_text = result["all kinds: text encoder"].estimate.value
    alone = with_text - result["all kinds: none"].estimate.value
    assert result["all kinds: text encoder alone"].estimate.value == pytest.approx(alone)
    without = result["all kinds: image encoder + read-out"].estimate.value
    lost = result["all kinds: all"].estimate.value - without
    assert result["all kinds: lost without text encoder"].estimate.value == pytest.approx(lost)
    grid = result.plots[0]
    assert isinstance(grid, Grid)
    assert grid.rows == ("images of tiny:0", "images of other")
    assert grid.columns[2] == "text of other, read-out of tiny:0"
    assert grid.values[0][2] == result["all kinds: text encoder"].estimate.value
    assert grid.values[1][3] == result["all kinds: all"].estimate.value
    assert result.notes[0] == "named parts come from other, all others from tiny:0"
    units = result["all kinds: all"].outcomes
    assert units is not None
    assert len(set(units.clusters)) == 12


def test_the_same_model_twice_has_no_part_to_name(snapshot: SnapshotAssertion) -> None:
    assert TRANSPLANT.say(measure(small(0), small(0))).sentence == snapshot


def test_it_is_skipped_with_the_reason(snapshot: SnapshotAssertion) -> None:
    assert find("probe", "transplant") is TRANSPLANT
    base, data = subject(small(0)), ProbeData("rows", rows(4))
    none = ProbeData("none", tuple(replace(row, negative=None) for row in rows(4)))
    bag = constructed_subject(bag_of_words_space(), other=base)
    wide = subject(small(0, name="wide", config=replace(CONFIG, joint=12)), base)
    chat = replace(base, other=replace(base, space=None))
    cases = [(base, data), (subject(small(1), base), none), (bag, data), (chat, data)]
    assert [run_probe(TRANSPLANT, *one).skipped for one in cases] == snapshot
    result = run_probe(TRANSPLANT, wide, data)
    assert result.skipped.startswith("tiny:0 and wide differ in architecture: ")


def test_without_a_read_out_only_encoders_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.probes.transplant._PROJECTIONS", frozenset())
    base, other = small(0), perturbed(small(0), "other")
    result = measure(other, base, rows(48))
    assert len(result.quantities) == 3 * (4 + 1 + 4)
    assert [one.name for one in result.quantities[:4]] == [
        "all kinds: none", "all kinds: text encoder", "all kinds: image encoder", "all kinds: all",
    ]  # fmt: skip
    assert result.notes[1] == "neither encoder has a separate projection: only encoders are swapped"
    grid = result.plots[0]
    assert isinstance(grid, Grid)
    assert grid.columns == ("text of tiny:0", "text of other")
    assert "read-out" not in TRANSPLANT.say(result).sentence


def test_all_rows_are_asked_in_full() -> None:
    base, other = small(0), perturbed(small(0), "other")
    data = ProbeData("rows", rows(200))
    full = run_probe(TRANSPLANT, subject(other, subject(base)), data, replace(QUICK, is_full=True))
    assert full["all kinds: all"].estimate.n == 200
    quick = run_probe(TRANSPLANT, subject(other, subject(base)), data, QUICK)
    # The rows that other probes look at too, and more of the kinds on which the two differ most.
    count = len(choose_rows(data.rows, QUICK))
    assert quick["all kinds: all"].estimate.n == count < 200
    assert quick["swap: all"].estimate.n == quick["replace: all"].estimate.n == 100


def of_shares(values: Mapping[str, FloatArray]) -> ProbeResult:
    quantities = tuple(
        mean(f"swap: {name}", value_N, about="", options=QUICK) for name, value_N in values.items()
    )
    return ProbeResult("transplant", quantities, headline="swap: difference")


@pytest.mark.parametrize(
    ("gains", "losses"),
    [
        ((0.0, 0.9, 0.0), (0.1, 1.0, 0.0)),
        ((0.9, 0.8, 0.0), (0.1, 0.0, 0.0)),
        ((0.2, 0.1, 0.0), (0.9, 1.0, 0.5)),
        ((0.2, 0.1, 0.0), (0.9, 1.0, 0.0)),
        ((0.2, 0.1, 0.0), (0.1, 0.6, 0.0)),
        ((0.3, 0.3, 0.3), (0.3, 0.3, 0.3)),
    ],
    ids=["one", "each", "all", "several", "not alone", "spread"],
)
def test_the_part_that_is_named(
    gains: tuple[float, ...], losses: tuple[float, ...], snapshot: SnapshotAssertion
) -> None:
    """Shares of a difference of -0.4: signs cancel."""
    shares = {"difference": 1.0}
    for part, gain, loss in zip(PARTS, gains, losses, strict=True):
        shares |= {alone(part): gain, lost(part): loss}
    result = of_shares({name: np.full(9, -0.4 * share) for name, share in shares.items()})
    assert TRANSPLANT.say(result).sentence == snapshot


def test_a_part_is_named_only_if_its_interval_excludes_0(snapshot: SnapshotAssertion) -> None:
    sure, unsure = np.array([0.0, 1.0] * 12), np.array([-1.0, 1.0, 1.0] * 8)
    values = {"difference": sure}
    values |= {alone(part): 1.5 * unsure if part is PARTS[0] else 0 * sure for part in PARTS}
    values |= {lost(part): 0 * sure for part in PARTS}
    result = of_shares(values)
    part = result[f"swap: {alone(PARTS[0])}"].estimate
    assert part.value == pytest.approx(0.5)
    assert part.low <= 0
    assert TRANSPLANT.say(result).sentence == snapshot
