"""Measure how often the map of a word is highest in the thing that it names, by read-out.

On the world it is known where things are, so that a map can be right or wrong. Images are the
first of each left/right pair with two things, captions "a star left of a cup", two words each.

.venv/bin/python docs/make_map_points.py vlm2vec decoder decoder@FOLDER

Dimensions: S patches or cells of a side.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from unbag.api import make_scorer
from unbag.metrics.intervals import wilson
from unbag.models.loading import load_model
from unbag.probes.base import Maps
from unbag.probes.data import world_probe_data
from unbag.probes.maps import cells, covered_maps, occlusion_maps, word_maps
from unbag.probes.space import EncoderSpace
from unbag.types import BoolArray, DualEncoder, FloatArray, ImageSource
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, Thing
from unbag.world.vocabulary import WORLDS

IMAGES = 100
Draw = Callable[[ImageSource, str], Maps]


def shown(count: int) -> Iterator[tuple[SceneImage, str]]:
    """Images whose caption names each of their two things once."""
    sides = [pair for pair in world_probe_data().pairs if pair.relation == "left/right"]
    for pair in sides[:count]:
        assert isinstance(pair.first, SceneImage)
        assert pair.captions is not None
        yield pair.first, pair.captions[0]


def box(thing: Thing, scene: Scene, side: int) -> BoolArray:
    """Patches or cells that the square around a thing touches, [S, S]."""
    world = WORLDS[scene.world]
    radius = world.radii[thing.size]
    start_S, stop_S = np.array([(one.start, one.stop) for one in cells(world.pixels, side)]).T

    def touched(centre: int) -> BoolArray:
        found: BoolArray = (start_S <= centre + radius) & (stop_S > centre - radius)
        return found

    return touched(thing.y)[:, None] & touched(thing.x)


def points(draw: Draw, count: int = IMAGES) -> tuple[int, int, float]:
    """Words whose highest patch lies in their thing, all words, and the mean size of a thing."""
    right, sizes = 0, []
    for image, caption in shown(count):
        value_of = {one.word: np.array(one.values) for one in draw(image, caption).maps}
        for thing in image.scene.things:
            value_SS: FloatArray = value_of[thing.shape]
            own_SS = box(thing, image.scene, len(value_SS))
            right += bool(own_SS.flat[value_SS.argmax()])
            sizes.append(float(own_SS.mean()))
    return right, len(sizes), float(np.mean(sizes))


if __name__ == "__main__":
    model = load_model("tiny:base")
    assert isinstance(model, DualEncoder)
    ways: dict[str, Draw] = {"cosines of tiny:base": partial(word_maps, EncoderSpace(model))}
    for name in sys.argv[1:]:
        scorer = make_scorer(model, name)
        ways[name] = partial(occlusion_maps, scorer)
        ways[f"{name}, cells painted over"] = partial(covered_maps, scorer)
    for name, draw in ways.items():
        right, words, size = points(draw)
        found = wilson(right, words)
        between = f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"
        print(
            f"{name}: {100 * right / words:.1f} {between} of {words} words; chance {100 * size:.1f}"
        )
