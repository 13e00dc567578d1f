import numpy as np
import pytest
import torch

from unbag.world import rendering as sprites
from unbag.world.placement import Look, place_apart, place_copies, sample_look, what_sup_set
from unbag.world.rendering import draw, draw_batch, pack, sprite_rows, sprite_table
from unbag.world.scenes import Scene, Thing
from unbag.world.vocabulary import DEFAULT, UNIT, World


def some_scenes(world: World) -> list[Scene]:
    rng = np.random.default_rng(0)
    scenes = [Scene((), 0, world.name)]
    for n in (1, 2, 3) * 6:
        scenes.append(place_apart(world, [sample_look(world, rng) for _ in range(n)], rng))
    for n in (1, 3, 5):
        scenes.append(place_copies(world, sample_look(world, rng), n, rng))
    pair = Look("ring", "red", "large", "striped"), Look("cross", "blue", "large", "dotted")
    scenes += what_sup_set(world, *pair, "b", rng)
    # A bar and a pillar reach the edge with their boxes outside the canvas.
    last = world.pixels - 1
    scenes.append(
        Scene(
            (
                Thing("pillar", "red", "small", "plain", 3, 15, (250, 1, 2)),
                Thing("bar", "blue", "small", "plain", 15, last - 3, (3, 4, 255)),
            ),
            0,
            world.name,
        )
    )
    return scenes


@pytest.mark.parametrize("is_gpu", [False, True])
@pytest.mark.parametrize("world", [DEFAULT, UNIT], ids=lambda world: world.name)
def test_pixel_for_pixel_what_draw_gives(
    world: World, is_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thing after thing as on a CPU, and as on a GPU, where every pixel asks every thing."""
    if is_gpu:
        monkeypatch.setattr(sprites, "_draw_by_things", sprites._draw_by_pixels)
    scenes = some_scenes(world)
    table = torch.from_numpy(sprite_table(world))
    images = draw_batch(table, pack(scenes), pixels=world.pixels, generator=None)
    expected = np.stack([draw(scene, with_noise=False) for scene in scenes]).transpose(0, 3, 1, 2)
    assert images.dtype == torch.float32
    assert np.array_equal(np.rint(images.numpy() * 255), expected)
    assert 0 <= float(images.min()) <= float(images.max()) <= 1


def test_noise_has_the_distribution_of_draw() -> None:
    scenes = some_scenes(DEFAULT)
    table = torch.from_numpy(sprite_table(DEFAULT))
    clean = draw_batch(table, pack(scenes), pixels=64, generator=None)
    one, again, other = (
        draw_batch(table, pack(scenes), pixels=64, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    added = (one - clean)[0] * 255
    assert float(added.mean()) == pytest.approx(0, abs=0.2)
    assert float(added.std()) == pytest.approx(6, rel=0.02)
    assert 0 <= float(one.min()) <= float(one.max()) <= 1


def test_the_table_has_a_row_for_every_look() -> None:
    table = sprite_table(DEFAULT)
    assert table.shape == (48 * 2 * 4, 21, 21, 2)
    rows = {
        sprite_rows("default")[shape, size, texture]
        for shape in DEFAULT.shapes
        for size in ("small", "large")
        for texture in ("plain", "striped", "dotted", "checkered")
    }
    assert rows == set(range(len(table)))
    assert set(np.unique(table[..., 0])) == {0, 1}
    assert set(np.unique(table[..., 1])) == {0, 60, 100}
    assert ((table[..., 1] > 0) == (table[..., 0] == 1)).all()


def test_packing_leaves_absent_things_out() -> None:
    scenes = some_scenes(UNIT)[:2]
    packed = pack(scenes)
    assert packed.present_NT.tolist() == [[False] * 5, [True] + [False] * 4]
    thing = scenes[1].things[0]
    assert (packed.x_NT[1, 0], packed.y_NT[1, 0]) == (thing.x, thing.y)
    assert packed.rgb_NT3[1, 0].tolist() == list(thing.rgb)
    row = sprite_rows("unit")[thing.shape, thing.size, thing.texture]
    assert packed.sprite_NT[1, 0] == row
    assert pack(scenes, most=1).present_NT.shape == (2, 1)
