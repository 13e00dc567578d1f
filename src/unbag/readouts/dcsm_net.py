"""Maps of cosines come in; one number each goes out: the networks of DCSM (7.1).

Dimensions: N maps, R rows (CLS and patches), L columns (tokens), O and I channels, D down and A
across a window, H hidden units.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS, HIDDEN = 4, 128
MLP_HIDDEN = (64, 32)


class MapCnn(nn.Module):
    """Two 3 x 3 convolutions over the map, then two layers over all of it.

    At 197 x 30 it has 3,026,365 weights. Rows follow one another as patches do, line by line, so a
    window sees a patch and its neighbours to the left and right, not those above and below.
    """

    def __init__(self, rows: int, columns: int, *, dropout: float = 0.0) -> None:
        """Dropout follows every stage."""
        super().__init__()
        self.first = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.hidden = nn.Linear(CHANNELS * rows * columns, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)
        self.stage = nn.Sequential(nn.ReLU(), nn.Dropout(dropout))

    def forward(self, map_NRL: Tensor) -> Tensor:
        """[N, R, L] to [N]."""
        return self.by_products(map_NRL) if map_NRL.is_cuda else self.convolved(map_NRL)

    def convolved(self, map_NRL: Tensor) -> Tensor:
        """As the paper writes it, [N, R, L] to [N]."""
        found = self.stage(self.first(map_NRL[:, None]))
        found = self.stage(self.second(found))
        score_N1: Tensor = self.out(self.stage(self.hidden(found.flatten(1))))
        return score_N1[:, 0]

    def by_products(self, map_NRL: Tensor) -> Tensor:
        """The same sums as products of matrices, for a GPU, [N, R, L] to [N].

        Four channels are few for its convolutions. Here the columns of all channels stand side by
        side, a window is three rows of them, and its weights are a matrix with zeros off a band:
        ten times the products, in a shape that a GPU is made for.
        """
        rows, columns = map_NRL.shape[1:]
        found = map_NRL
        for layer in (self.first, self.second):
            assert layer.bias is not None
            above = functional.pad(found, (0, 0, 1, 1))
            window = torch.cat([above[:, down : down + rows] for down in range(3)], dim=2)
            bias = layer.bias.repeat_interleave(columns)
            found = self.stage(functional.linear(window, _band(layer, columns), bias))
        weight_HORL = self.hidden.weight.view(len(self.hidden.weight), -1, rows, columns)
        weight = weight_HORL.transpose(1, 2).flatten(1)
        hidden = functional.linear(found.flatten(1), weight, self.hidden.bias)
        score_N1: Tensor = self.out(self.stage(hidden))
        return score_N1[:, 0]


def _band(layer: nn.Conv2d, columns: int) -> Tensor:
    """[O, I, D, A] to [O x L, D x I x L]: a column sees itself and those beside it."""
    like = layer.weight
    beside = torch.stack([like.new_ones(columns - abs(at)).diag(at) for at in (-1, 0, 1)])
    found = torch.einsum("oida,amn->omdin", like, beside)
    return found.flatten(2).flatten(0, 1)


class MapMlp(nn.Module):
    """Three layers over all of the map."""

    def __init__(self, rows: int, columns: int, *, dropout: float = 0.0) -> None:
        """Dropout follows every stage."""
        super().__init__()
        wide, narrow = MLP_HIDDEN
        self.layers = nn.Sequential(
            nn.Linear(rows * columns, wide),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(wide, narrow),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(narrow, 1),
        )

    def forward(self, map_NRL: Tensor) -> Tensor:
        """[N, R, L] to [N]."""
        score_N1: Tensor = self.layers(map_NRL.flatten(1))
        return score_N1[:, 0]


def map_net(
    kind: Literal["cnn", "mlp"], *, rows: int, columns: int, dropout: float
) -> MapCnn | MapMlp:
    """By name."""
    return (MapCnn if kind == "cnn" else MapMlp)(rows, columns, dropout=dropout)
