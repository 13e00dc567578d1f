"""DCSM's network alone: its convolutions as they are, and in other forms that give the same.

python perf/map_net.py [--maps 9216] [--rows 65] [--columns 30] [--device cpu]

A step of 256 pictures in crowds of 32 with four negatives each has 9,216 maps. Four channels are
few for a library of convolutions. In the banded form the columns of a map are channels too: a
3 x 3 window becomes a window of three rows over `4 x columns` channels, whose weights are zero but
in a band. That is ten times the products, in a shape that matrix units are made for.

Dimensions: N maps, R rows, L columns, O and I channels, D down and A across the window.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
from timed import seconds
from torch import Tensor, nn
from torch.nn import functional

from unbag.models.device import choose_device
from unbag.readouts.dcsm_net import MapCnn

Form = Callable[[MapCnn, Tensor], Tensor]


def plain(net: MapCnn, map_NRL: Tensor) -> Tensor:
    found: Tensor = net(map_NRL)
    return found


def tried(net: MapCnn, map_NRL: Tensor) -> Tensor:
    """On a GPU, with the kernel that was quickest when the shape was first met."""
    with torch.backends.cudnn.flags(benchmark=True):
        return plain(net, map_NRL)


def banded(net: MapCnn, map_NRL: Tensor) -> Tensor:
    """[N, R, L] to [N]."""
    rows, columns = map_NRL.shape[1:]
    found = map_NRL.transpose(1, 2)
    for layer in (net.first, net.second):
        bias = layer.bias
        assert bias is not None
        wide = bias.repeat_interleave(columns)
        found = net.stage(functional.conv1d(found, band(layer, columns), wide, padding=1))
    weight = net.hidden.weight.view(len(net.hidden.weight), -1, rows, columns).transpose(2, 3)
    hidden = functional.linear(found.flatten(1), weight.flatten(1), net.hidden.bias)
    score_N1: Tensor = net.out(net.stage(hidden))
    return score_N1[:, 0]


def band(layer: nn.Conv2d, columns: int) -> Tensor:
    """[O, I, D, A] to [O x L, I x L, D]: column m of the output sees columns m - 1 to m + 1."""
    every = [
        torch.ones(columns - abs(at), device=layer.weight.device).diag(at) for at in (-1, 0, 1)
    ]
    found = torch.einsum("oida,amn->omind", layer.weight, torch.stack(every))
    return found.flatten(2, 3).flatten(0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=512)
    parser.add_argument("--rows", type=int, default=65)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    said = parser.parse_args()
    device = choose_device(said.device)
    torch.manual_seed(0)
    net = MapCnn(said.rows, said.columns).to(device)
    map_NRL = torch.randn((said.maps, said.rows, said.columns), device=device)
    forms: dict[str, Form] = {"as it is": plain, "kernels tried": tried, "banded": banded}
    with torch.inference_mode():
        score_N = net(map_NRL)
        apart = {
            name: float((form(net, map_NRL) - score_N).abs().max()) for name, form in forms.items()
        }

    def read(form: Form) -> None:
        with torch.inference_mode():
            form(net, map_NRL)

    def learn(form: Form) -> None:
        net.zero_grad(set_to_none=True)
        form(net, map_NRL).square().mean().backward()  # type: ignore[no-untyped-call]

    print(f"{said.maps:,} maps of {said.rows} x {said.columns} on {device}, medians")
    for name, form in forms.items():
        reading = seconds(partial(read, form), device, said.rounds)
        learning = seconds(partial(learn, form), device, said.rounds)
        print(
            f"{name:14} {1e3 * reading:8.2f} ms to read, {1e3 * learning:8.2f} ms with gradients, "
            f"scores apart by {apart[name]:.1e} of {float(score_N.std()):.1e}"
        )


if __name__ == "__main__":
    main()
