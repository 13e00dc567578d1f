"""Parts of two models combined: exact parts, exact ends, worked verdicts, unlike models refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from unbag.engine.progress import Silent
from unbag.errors import UserError
from unbag.models.hf import load as load_hf
from unbag.models.tiny import Tiny, untrained
from unbag.models.tiny_towers import TinyConfig
from unbag.probes.constructed import bag_of_words_space, constructed_subject
from unbag.probes.encoded import EncoderSpace
from unbag.probes.finding import Finding, Options
from unbag.probes.material import Material, Row
from unbag.probes.plots import Grid
from unbag.probes.probe import Subject, put
from unbag.probes.transplant import SOURCES, Choice, open_donors, parts_of, transplant
from unbag.probes.transplant_probe import TRANSPLANT, credits, encode, encode_variants, wins
from unbag.registry import find
from unbag.scorers.cosine import Cosine
from unbag.train.make_trainable import make_trainable
from unbag.types import DualEncoder, FloatArray
from unbag.world.draw import ScenePicture
from unbag.world.place import Look, place_apart
from unbag.world.words import UNIT

WORDS = ("a", "red", "blue", "green", "circle", "square", "cross", "and", "left", "of", "two")
CONFIG = TinyConfig(
    pixels=32, patch=16, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
    joint=8, heads=2, context=16, words=WORDS,
)  # fmt: skip
QUICK = Options(resamples=300)


def small(seed: int, *, name: str = "", config: TinyConfig = CONFIG) -> Tiny:
    return Tiny(untrained(config, seed=seed), name=name or f"tiny:{seed}")


def perturbed(
    encoder: DualEncoder, name: str, *, only: str = "", size: float = 0.3, seed: int = 3
) -> DualEncoder:
    """Other weights wherever the name begins so, the scale included."""
    trainable = make_trainable(encoder, device="cpu")
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for place, weight in trainable.module.named_parameters():
            noise = size * torch.randn(weight.shape, generator=rng)
            if place.startswith(only):
                weight.add_(noise)
    return trainable.encoder(name)


def vectors(encoder: DualEncoder) -> tuple[Tensor, Tensor]:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    pixels = encoder.prepare(Image.fromarray(noise))[None]
    return encoder.encode_pictures(pixels), encoder.encode_captions(["a red cross", "a"])


def rows(count: int = 24) -> tuple[Row, ...]:
    """Two kinds, four rows a cluster."""
    found = []
    for i in range(count):
        rng = np.random.default_rng((i, 5))
        a, b = rng.permutation(UNIT.shapes[:2] + UNIT.shapes[3:4]).tolist()[:2]
        scene = place_apart(UNIT, (Look(a, "red", "small"), Look(b, "blue", "small")), rng)
        kind = "swap" if i % 2 else "replace"
        negative = f"a blue {a} and a red {b}" if i % 2 else f"a green {a} and a blue {b}"
        said = f"a red {a} and a blue {b}"
        picture = ScenePicture(scene, f"scene {i}")
        found.append(Row(f"row {i}", picture, said, negative, kind=kind, cluster=str(i // 4)))
    return tuple(found)


def subject(encoder: DualEncoder, other: Subject | None = None) -> Subject:
    return Subject(encoder.name, encoder, EncoderSpace(encoder), Cosine(encoder), other=other)


def asked(model: DualEncoder, base: DualEncoder, some: tuple[Row, ...] | None = None) -> Finding:
    material = Material("rows", rows() if some is None else some)
    return put(TRANSPLANT, subject(model, subject(base)), material, QUICK)


def test_parts_of_the_tiny_encoder() -> None:
    trainable = make_trainable(small(0), device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == {"picture.project.weight", "caption.project.weight", "log_scale"}
    assert parts.picture == {n for n in names if n.startswith("picture.")} - parts.read_out
    assert parts.text == {n for n in names if n.startswith("caption.")} - parts.read_out
    assert len(parts.picture) + len(parts.text) + len(parts.read_out) == len(names)
    assert parts.notes == ()


def test_eight_combinations_and_their_ends() -> None:
    base, other = small(0), small(1)
    found = transplant(base, other)
    assert [one.choice for one in found] == [
        Choice(p, t, r) for p, t, r in product(SOURCES, repeat=3)
    ]
    # The fingerprint is of all weights, so the ends are the models themselves.
    assert found[0].encoder.fingerprint == base.fingerprint
    assert found[-1].encoder.fingerprint == other.fingerprint
    assert len({one.encoder.fingerprint for one in found}) == 8
    assert found[1].encoder.name == "pictures of tiny:0, captions of tiny:0, read-out of tiny:1"
    assert found[1].encoder.scale == other.scale
    for one in found:
        assert isinstance(one.encoder, Tiny)
        state = one.encoder.towers.state_dict()
        for place, source in {
            "picture.norm.weight": one.choice.picture,
            "caption.tokens.weight": one.choice.text,
            "picture.project.weight": one.choice.read_out,
            "caption.project.weight": one.choice.read_out,
        }.items():
            wanted = (base if source == "base" else other).towers.state_dict()[place]
            assert torch.equal(state[place], wanted), (one.choice, place)


HF = {
    "clip": {"visual_projection.weight", "text_projection.weight", "logit_scale"},
    "siglip": {"text_model.head.weight", "text_model.head.bias", "logit_scale", "logit_bias"},
    "align": {"text_projection.weight", "text_projection.bias", "log_scale"},
    "vision-text-dual-encoder": {
        "visual_projection.weight", "text_projection.weight", "logit_scale",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", HF)
def test_models_of_transformers(hf_folder: Callable[[str], Path], kind: str) -> None:
    base = load_hf(str(hf_folder(kind)))
    assert isinstance(base, DualEncoder)
    trainable = make_trainable(base, device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == HF[kind]
    assert parts.picture | parts.text | parts.read_out == names
    assert parts.picture == {n for n in names if n.startswith("vision_model.")}
    assert len(parts.picture) + len(parts.text) + len(parts.read_out) == len(names)
    assert bool(parts.notes) == (kind in ("siglip", "align"))
    other = perturbed(base, "other", size=0.05)
    found = transplant(base, other)
    for whole, ends in ((base, found[0]), (other, found[-1])):
        assert all(map(torch.equal, vectors(ends.encoder), vectors(whole)))
    assert len(found) == 8
    assert type(found[3].encoder) is type(base)
    mixed = {one.choice: one.encoder for one in found}[Choice("other", "base", "other")]
    assert not torch.equal(vectors(mixed)[1], vectors(other)[1])


class _NoProjection:
    """Towers of two layers without a projection."""

    name = "plain"

    def __init__(self) -> None:
        self.module: Any = nn.Module()
        self.module.eyes, self.module.words = nn.Linear(2, 2), nn.Linear(2, 2)
        self.module.eyes.register_buffer("grid", torch.ones(2))
        self.module.register_buffer("mask", torch.ones(2))
        self.module.scale = nn.Parameter(torch.tensor(1.0))
        self.picture_layers = [[self.module.eyes.weight], [self.module.eyes.bias]]
        self.caption_layers = [[self.module.words]]
        self.temperature = [self.module.scale]


def test_without_a_projection_there_are_two_parts() -> None:
    parts = parts_of(_NoProjection())  # type: ignore[arg-type]
    assert parts.read_out == frozenset()
    # A buffer right in the picture tower is the tower's; the scale goes with the text.
    assert parts.picture == {"eyes.weight", "eyes.bias", "eyes.grid"}
    assert parts.text == {"words.weight", "words.bias", "scale", "mask"}
    assert parts.notes == ("neither tower has a separate projection: only towers were exchanged",)


def test_towers_that_share_weights_are_refused() -> None:
    plain = _NoProjection()
    plain.caption_layers = [[plain.module.eyes, plain.module.words]]
    with pytest.raises(UserError, match="plain cannot be taken apart: its towers share 2 weights"):
        parts_of(plain)  # type: ignore[arg-type]


def test_another_architecture_is_refused() -> None:
    wide = small(0, name="wide", config=replace(CONFIG, joint=12))
    with pytest.raises(UserError) as caught:
        transplant(small(0), wide)
    assert str(caught.value).startswith("tiny:0 and wide differ in architecture: ")
    assert "name that one as --against" in str(caught.value)
    assert "--base" not in str(caught.value)


def test_another_vocabulary_is_refused() -> None:
    turned = small(0, name="turned", config=replace(CONFIG, words=WORDS[::-1]))
    with pytest.raises(UserError, match="compute other vectors from the same weights") as caught:
        transplant(small(0), turned)
    assert "name that one as --against" in str(caught.value)


def test_another_preparation_is_refused() -> None:
    class Mirrored(Tiny):
        def prepare(self, image: Image.Image) -> Tensor:
            return super().prepare(image).flip(-1)

    mirrored = Mirrored(untrained(CONFIG, seed=0), name="mirrored")
    with pytest.raises(UserError, match="tiny:0 and mirrored prepare a picture in two ways"):
        transplant(small(0), mirrored)


def test_a_model_without_towers_is_refused() -> None:
    class Chat:
        name = "chat"

    with pytest.raises(UserError) as caught:
        transplant(small(0), Chat())  # type: ignore[arg-type]
    assert str(caught.value).startswith("chat cannot be taken apart into two towers and a read-out")
    assert "chat models and matching heads have no two towers" in str(caught.value)


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
        pictures, text = encoded[one.choice.picture, read_out], encoded[one.choice.text, read_out]
        np.testing.assert_array_equal(pictures.picture_ND, whole.picture_ND)
        np.testing.assert_array_equal(text.caption_ND, whole.caption_ND)
        np.testing.assert_array_equal(text.negative_ND, whole.negative_ND)
        assert right[one.choice].tolist() == wins(whole.picture_ND, whole).tolist()
        margins.add(float((whole.picture_ND * (whole.caption_ND - whole.negative_ND)).sum()))
    assert len(margins) == 8


@pytest.mark.parametrize(
    ("only", "part"), [("caption.blocks", "text tower"), ("picture.blocks", "picture tower")]
)
def test_a_change_in_one_tower_is_placed_there(only: str, part: str) -> None:
    base = perturbed(small(0), "base", size=0.5)
    repaired = perturbed(base, "repaired", only=only, size=0.5, seed=4)
    found = asked(repaired, base, _only_second(base, repaired))
    assert found["swap: none"].estimate.value == 0.0
    assert found["swap: difference"].estimate.value == 1.0
    # All else is the same, so the part alone is the whole.
    assert found[f"swap: {part} alone"].estimate.value == 1.0
    assert found[f"swap: lost without {part}"].estimate.value == 1.0
    assert found["swap: read-out alone"].estimate.value == 0.0
    verdict = TRANSPLANT.say(found)
    assert verdict.tone == "told"
    assert verdict.sentence.startswith("Of +100.0 points [")
    assert verdict.sentence.endswith(f": it sits in the {part}.")


def _only_second(base: DualEncoder, repaired: DualEncoder) -> tuple[Row, ...]:
    """Rows, their captions turned where needed, in which the base errs and the other does not."""
    margins = [_margins(EncoderSpace(encoder), rows(160)) for encoder in (base, repaired)]
    turned = [
        row if gap > 0 else replace(row, caption=str(row.negative), negative=row.caption)
        for row, gap in zip(rows(160), margins[1], strict=True)
    ]
    is_kept_N = (margins[0] * margins[1] < 0) & (np.minimum(*map(np.abs, margins)) > 1e-5)
    found = [replace(row, kind="swap") for row, kept in zip(turned, is_kept_N, strict=True) if kept]
    assert len(found) >= 20
    return tuple(found)


def _margins(space: EncoderSpace, some: tuple[Row, ...]) -> FloatArray:
    picture_ND = space.pictures([row.picture for row in some])
    true_ND = space.captions([row.caption for row in some])
    false_ND = space.captions([str(row.negative) for row in some])
    found: FloatArray = (picture_ND * (true_ND - false_ND)).sum(axis=1)
    return found


def test_quantities_and_the_grid() -> None:
    base, other = small(0), perturbed(small(0), "other")
    found = asked(other, base, rows(48))
    # Two kinds of 24 rows, all kinds, each with 8 shares, a difference and 2 effects of 3 parts.
    assert len(found.quantities) == 3 * (8 + 1 + 6)
    assert found.headline.endswith(": difference")
    difference = found["all kinds: all"].estimate.value - found["all kinds: none"].estimate.value
    assert found["all kinds: difference"].estimate.value == pytest.approx(difference)
    with_text = found["all kinds: text tower"].estimate.value
    alone = with_text - found["all kinds: none"].estimate.value
    assert found["all kinds: text tower alone"].estimate.value == pytest.approx(alone)
    without = found["all kinds: picture tower + read-out"].estimate.value
    lost = found["all kinds: all"].estimate.value - without
    assert found["all kinds: lost without text tower"].estimate.value == pytest.approx(lost)
    grid = found.plots[0]
    assert isinstance(grid, Grid)
    assert grid.rows == ("pictures of tiny:0", "pictures of other")
    assert grid.columns[2] == "text of other, read-out of tiny:0"
    assert grid.values[0][2] == found["all kinds: text tower"].estimate.value
    assert grid.values[1][3] == found["all kinds: all"].estimate.value
    assert found.notes[0] == "parts come from tiny:0, or where they are named from other"
    units = found["all kinds: all"].outcomes
    assert units is not None
    assert len(set(units.clusters)) == 12


def test_the_same_model_twice_has_no_part_to_name() -> None:
    verdict = TRANSPLANT.say(asked(small(0), small(0)))
    assert verdict.sentence.startswith("The two models do not differ ")
    assert verdict.sentence.endswith("no part to name.")


def test_registered() -> None:
    assert find("probe", "transplant") is TRANSPLANT
    with_negative = Material("rows", rows(4))
    assert put(TRANSPLANT, subject(small(0)), with_negative).skipped == (
        "needs a second model: --against"
    )


def test_skipped_with_the_reason() -> None:
    base = subject(small(0))
    none = Material("none", tuple(replace(row, negative=None) for row in rows(4)))
    found = put(TRANSPLANT, subject(small(1), base), none)
    assert found.skipped == "needs captions with negatives, and there are none"
    bag = constructed_subject(bag_of_words_space(), other=base)
    found = put(TRANSPLANT, bag, Material("rows", rows(4)))
    assert found.skipped == "needs two dual encoders: others have no two towers"
    wide = subject(small(0, name="wide", config=replace(CONFIG, joint=12)), base)
    found = put(TRANSPLANT, wide, Material("rows", rows(4)))
    assert found.skipped.startswith("tiny:0 and wide differ in architecture: ")
    chat = replace(base, space=None)
    found = put(TRANSPLANT, replace(base, other=chat), Material("rows", rows(4)))
    assert found.skipped == "needs two dual encoders: others have no two towers"
