"""Opposite pairs of the world: true in their own scene only, in groups of two, for a reader."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.features import View
from unbag.models.tiny import load
from unbag.readouts.composites import composite_pool, composites
from unbag.readouts.dcsm import FUNCTIONAL, Dcsm, DcsmSettings, MapCaptions
from unbag.readouts.training import ReaderTask, sizes_of
from unbag.training.trainer import Trainer
from unbag.world.grammar import holds, parse
from unbag.world.stream import withheld
from unbag.world.vocabulary import DEFAULT

from .reader_batches import run_losses

MADE = composites(32, seed=3)


def test_every_caption_holds_in_its_own_scene_only() -> None:
    assert [one.family for one in MADE[:4]] == ["relation", "swap", "size", "negation"]
    for one in MADE:
        for side in (0, 1):
            for text in one.captions[side]:
                assert holds(parse(text), one.scenes[side])
                assert not holds(parse(text), one.scenes[1 - side])
        assert len({text for both in one.captions for text in both}) == 4


def test_kinds_say_what_the_paper_says() -> None:
    said = {one.family: one.captions for one in MADE}
    small = said["size"][0][0].split()
    assert "small" in small
    assert "big" in small
    assert " but no " in said["negation"][0][0]
    assert " without a" in said["negation"][0][1]
    relations = [one.captions[0][0] for one in MADE if one.family == "relation"]
    for word in ("left", "right", "above", "below"):
        assert any(word in text.split() for text in relations)
    met = {w for one in MADE for both in one.captions for t in both for w in t.split()}
    # No caption of the world says these two.
    assert set(FUNCTIONAL) - met == {"not", "absent"}


def test_pairs_depend_on_seed_and_place_alone() -> None:
    assert composites(4, seed=3) == MADE[:4]
    assert composites(4, seed=4) != MADE[:4]
    spatial = composites(2, seed=3, kinds=("spatial",))
    assert {one.family for one in spatial} == {"relation"}
    with pytest.raises(UnbagError, match="kind of composite 'shape'"):
        composites(2, kinds=("shape",))
    with pytest.raises(UnbagError, match="0 composites") as error:
        composites(0)
    assert error.value.expected == "at least one"


def test_what_is_withheld_from_training_is_never_shown() -> None:
    from unbag.training.data.world import DEFAULT_PRESET, find_preset

    never = withheld(DEFAULT, find_preset(DEFAULT_PRESET)).combinations
    assert never
    shown = {(t.shape, t.colour) for one in MADE for scene in one.scenes for t in scene.things}
    assert not shown & never


def test_a_pool_of_twos_teaches_as_the_paper_does() -> None:
    tiny = load("base")
    before = {name: value.clone() for name, value in tiny.network.state_dict().items()}
    settings = DcsmSettings(
        length=10,
        net="mlp",
        batch_size=16,
        contrast_size=16,
        steps=12,
        warmup_steps=0,
        negatives=False,
    )
    made = Dcsm(settings, sizes := sizes_of(composite_pool(tiny, _view(settings), MADE[:2])))
    pool = composite_pool(tiny, made.view, MADE[:8])
    assert (len(pool), len(pool.image), pool.group, sizes.patches) == (32, 16, 2, 64)
    assert pool.image_N[:6].tolist() == [0, 1, 1, 0, 2, 3]
    assert pool.about.startswith("8 pairs of opposite scenes of the built-in world, ")
    for at in range(0, 32, 2):
        # Opposites of the same version; each other's caption is the negative.
        assert pool.negative_NK[at].tolist() == [pool.caption_N[at + 1]]
        assert pool.negative_NK[at + 1].tolist() == [pool.caption_N[at]]
    # The last of four rows: the first scene, said in the second version.
    read = made.view.encode_texts(tiny, [MADE[1].captions[0][1]])
    kept = pool.caption.rows(pool.caption_N[7:8])
    torch.testing.assert_close(kept.vector_NLW.float(), read.vector_NLW, atol=1e-3, rtol=0)
    batch = pool.batch(torch.arange(8), device="cpu", with_negatives=False)
    # The other version of a row's caption is no negative of it.
    assert batch.also_true_BB[0, 3]
    assert not batch.also_true_BB[0, 1]
    # Held out are whole pairs: no image is on both sides.
    cut = len(pool) - replace(pool, group=2).held_out
    assert not set(pool.image_N[:cut].tolist()) & set(pool.image_N[cut:].tolist())
    losses = run_losses(Trainer(ReaderTask(made, pool, settings, device="cpu")))
    assert len(losses) == 12
    assert losses[-1] < losses[0]
    assert all(
        torch.equal(value, before[name]) for name, value in tiny.network.state_dict().items()
    )


def _view(settings: DcsmSettings) -> View:
    return MapCaptions(settings.align, settings.length, settings.padding).view
