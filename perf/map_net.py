"""DCSM's network alone: as convolutions, with the kernels that cuDNN tried, and as products.

python perf/map_net.py [--maps 9216] [--rows 65] [--columns 30] [--device cpu]

A step of 256 images in crowds of 32 with four negatives each has 9,216 maps. Four channels are
few for a library of convolutions; `MapCnn.by_products`, which a GPU takes, computes the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
from timed import seconds
from torch import Tensor

from unbag.models.loading import choose_device
from unbag.readouts.dcsm import MapCnn

Form = Callable[[MapCnn, Tensor], Tensor]


def tried(net: MapCnn, map_NRL: Tensor) -> Tensor:
    """On a GPU, with the kernel that was quickest when the shape was first met."""
    with torch.backends.cudnn.flags(benchmark=True):
        return net.convolved(map_NRL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=512)
    parser.add_argument("--rows", type=int, default=65)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    torch.manual_seed(0)
    net = MapCnn(arguments.rows, arguments.columns).to(device)
    map_NRL = torch.randn((arguments.maps, arguments.rows, arguments.columns), device=device)
    forms: dict[str, Form] = {
        "convolutions": MapCnn.convolved,
        "kernels tried": tried,
        "products": MapCnn.by_products,
    }
    with torch.inference_mode():
        score_N = net.convolved(map_NRL)
        apart = {
            name: float((form(net, map_NRL) - score_N).abs().max()) for name, form in forms.items()
        }

    def read(form: Form) -> None:
        with torch.inference_mode():
            form(net, map_NRL)

    def learn(form: Form) -> None:
        net.zero_grad(set_to_none=True)
        form(net, map_NRL).square().mean().backward()  # type: ignore[no-untyped-call]

    print(f"{arguments.maps:,} maps of {arguments.rows} x {arguments.columns} on {device}, medians")
    for name, form in forms.items():
        reading = seconds(partial(read, form), device, arguments.rounds)
        learning = seconds(partial(learn, form), device, arguments.rounds)
        print(
            f"{name:14} {1e3 * reading:8.2f} ms to read, {1e3 * learning:8.2f} ms with gradients, "
            f"scores apart by {apart[name]:.1e} of {float(score_N.std()):.1e}"
        )


if __name__ == "__main__":
    main()
