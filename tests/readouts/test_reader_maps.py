"""Maps of each word by readers: weights as they score with, and what a hidden cell costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.readouts.dcsm import END, Dcsm, DcsmSettings
from unbag.readouts.pacl import Pacl, PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import MappedReader, Sizes
from unbag.readouts.sparc import Sparc, SparcSettings
from unbag.types import TokenFeatures

from .reader_batches import SIZES, captions, images, parts

DCSM = DcsmSettings(length=3, functional_words=False)


class Weighted(nn.Module):
    """The sum of all cells, each times its number from 0 on."""

    def forward(self, map_NRL: Tensor) -> Tensor:
        flat = map_NRL.flatten(1)
        return flat @ torch.arange(flat.shape[1], dtype=flat.dtype)


def dcsm(settings: DcsmSettings = DCSM) -> Dcsm:
    found = Dcsm(settings, Sizes(patches=4, picture_width=6, caption_width=6)).eval()
    found.net = Weighted()  # type: ignore[assignment]
    return found


def marked(count: int) -> TokenFeatures:
    said = parts(count, 3, 6, seed=5)
    return replace(said, mark_NL=torch.tensor([[0, 0, END]]).expand(count, 3))


def test_a_reader_says_whether_it_can_be_drawn() -> None:
    for reader in (Pacl(PaclSettings(), SIZES), Sparc(SparcSettings(), SIZES), dcsm()):
        assert isinstance(reader, MappedReader)
        assert reader.maps_show.endswith(".")
    assert not isinstance(Pooled(PooledSettings(width=8), SIZES), MappedReader)


def test_pacl_shows_the_weights_of_a_caption() -> None:
    reader = Pacl(PaclSettings(), SIZES).eval()
    seen, said = images(3, missing=1), captions(3)
    map_NTL = reader.word_maps(seen, said)
    assert map_NTL.shape == (3, 1, 4)
    assert torch.equal(map_NTL[:, 0], reader.weights(seen, said))
    assert map_NTL[1, 0, 3] == 0
    assert ((map_NTL[0] > 0) & (map_NTL[0] < 1)).all()


def test_sparc_shows_the_patches_that_each_word_gathers() -> None:
    reader = Sparc(SparcSettings(padding=False, fallback=True), SIZES).eval()
    map_NTL = reader.word_maps(images(2), captions(2))
    assert map_NTL.shape == (2, 5, 4)
    expected = torch.tensor([[1.0] * 5, [1, 1, 1, 0, 0]])
    assert torch.allclose(map_NTL.sum(dim=-1), expected, atol=1e-5)


@pytest.mark.parametrize("norm", ["map", "batch"])
def test_dcsm_shows_what_a_hidden_cell_costs(norm: str) -> None:
    reader = dcsm(replace(DCSM, norm=norm))  # type: ignore[arg-type]
    seen, said = parts(2, 4, 6, seed=4), marked(2)
    map_NTL = reader.word_maps(seen, said)
    # Row 0 of a map is CLS, so patch p and column t stand at number 3 (1 + p) + t.
    number_LT = 3 * (1 + torch.arange(4))[:, None] + torch.arange(3)[None]
    expected_NLT = reader.maps(seen, said)[:, 1:] * number_LT
    assert map_NTL.shape == (2, 3, 4)
    assert torch.allclose(map_NTL, expected_NLT.transpose(1, 2), atol=1e-4)


def test_hiding_a_cell_leaves_the_others_and_cells_that_never_counted_cost_nothing() -> None:
    reader = Dcsm(replace(DCSM, only="eos"), Sizes(4, 6, 6)).eval()
    seen, said = parts(1, 4, 6, seed=4), marked(1)
    map_TL = reader.word_maps(seen, said)[0]
    assert map_TL[:2].abs().max() < 1e-6
    assert map_TL[2].abs().max() > 1e-4
    map_NRL = reader.maps(seen, said)
    by_hand = map_NRL.clone()
    by_hand[0, 2, 2] = 0
    cost = reader.net(map_NRL) - reader.net(by_hand)
    assert torch.allclose(map_TL[2, 1], cost[0], atol=1e-6)


def test_shuffled_patches_have_no_places_to_draw() -> None:
    reader = dcsm(replace(DCSM, shuffle_patches="same"))
    with pytest.raises(
        UnbagError, match="shuffle_patches=same, so its rows are no positions"
    ) as error:
        reader.word_maps(parts(1, 4, 6, seed=4), marked(1))
    assert error.value.expected == "shuffle_patches=no"
