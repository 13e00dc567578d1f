"""Maps of cosines come in; one number each goes out: the networks of DCSM (7.1).

Dimensions: N maps, R rows (CLS and patches), L columns (tokens), O and I channels, D down and A
across a window, H hidden units.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
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
            bias = layer.bias.repeat_interleave(columns)
            found = functional.linear(_Windows.apply(found), _band(layer, columns), bias)
            found = self.stage(found)
        weight_HORL = self.hidden.weight.view(len(self.hidden.weight), -1, rows, columns)
        weight = weight_HORL.transpose(1, 2).flatten(1)
        hidden = functional.linear(found.flatten(1), weight, self.hidden.bias)
        score_N1: Tensor = self.out(self.stage(hidden))
        return score_N1[:, 0]


class _Windows(torch.autograd.Function):
    """Each row between the ones above and below it, zeros beyond the map: [N, R, C] to [N, R, 3C].

    Windows are the most that a step reads and writes. By padding, cutting and joining, with the
    gradients that torch makes of them, it would be twice as much.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, found_NRC: Tensor) -> Tensor:
        """Written once."""
        maps, rows, size = found_NRC.shape
        window = found_NRC.new_empty((maps, rows, 3 * size))
        above, own, below = torch.chunk(window, 3, dim=2)
        above[:, 0] = 0
        above[:, 1:] = found_NRC[:, :-1]
        own.copy_(found_NRC)
        below[:, :-1] = found_NRC[:, 1:]
        below[:, -1] = 0
        return window

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        """Of a row: from its own window and from those of its neighbours."""
        above, own, below = torch.chunk(gradient, 3, dim=2)
        total = own.clone(memory_format=torch.contiguous_format)
        total[:, :-1] += above[:, 1:]
        total[:, 1:] += below[:, :-1]
        return total


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
