"""Maps of cosines come in; one number each goes out: the networks of DCSM (7.1).

Dimensions: N maps, R rows (CLS and patches), L columns (tokens).
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

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
        found = self.stage(self.first(map_NRL[:, None]))
        found = self.stage(self.second(found))
        score_N1: Tensor = self.out(self.stage(self.hidden(found.flatten(1))))
        return score_N1[:, 0]


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
