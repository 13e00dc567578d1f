"""Images of scenes: known bytes, textures, noise, and batches that equal single images."""

from hashlib import blake2b

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.types import ImageSource
from unbag.world import rendering
from unbag.world.placement import Look, place_apart, place_copies, sample_look, what_sup_set
from unbag.world.rendering import (
    BACKGROUND,
    SceneImage,
    draw,
    draw_batch,
    gaussian,
    noise,
    pack,
    pixel_difference,
    sprite_rows,
    sprite_table,
)
from unbag.world.scenes import RENDERER, Scene, Thing
from unbag.world.shapes import mask
from unbag.world.vocabulary import DEFAULT, UNIT, Texture, World


def scene_of(texture: Texture = "plain", *, seed: int = 5) -> Scene:
    rear = Thing("square", "red", "large", "plain", 30, 30, (200, 40, 50))
    front = Thing("circle", "blue", "large", texture, 40, 35, (50, 90, 230))
    return Scene((rear, front), seed)


def digest(images: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]) -> str:
    return blake2b(b"".join(image.tobytes() for image in images), digest_size=8).hexdigest()


def every_shape(texture: Texture) -> list[Scene]:
    return [
        Scene(
            (
                Thing(shape, "red", "large", texture, 20, 20, (220, 40, 40)),
                Thing(shape, "lime", "small", texture, 50, 44, (165, 250, 70)),
            ),
            number,
        )
        for number, shape in enumerate(DEFAULT.shapes)
    ]


def test_the_renderer_does_not_change_silently() -> None:
    """A change here needs a new RENDERER: saved scenes must render as before or be refused."""
    textures: tuple[Texture, ...] = ("plain", "striped", "dotted", "checkered")
    assert RENDERER == 1
    assert {t: digest([draw(s) for s in every_shape(t)]) for t in textures} == {
        "plain": "c670dd99cb7b1b2a",
        "striped": "d7d1fe5aed86c09d",
        "dotted": "135f15aae79fc07f",
        "checkered": "d9cbc5a7629155c5",
    }


def test_images_depend_on_the_scene_only() -> None:
    image = draw(scene_of())
    assert image.shape == (64, 64, 3)
    assert image.dtype == np.uint8
    assert image.tobytes() == draw(scene_of()).tobytes()
    assert (draw(scene_of(seed=6)) != image).any()
    ring = Thing("ring", "red", "small", "plain", 3, 28, (9, 9, 9))
    assert draw(Scene((ring,), 0, world=UNIT.name)).shape == (32, 32, 3)


def test_later_things_cover_earlier_ones() -> None:
    image = draw(scene_of(), with_noise=False)
    assert tuple(image[35, 40]) == (50, 90, 230)
    assert tuple(image[35, 36]) == (50, 90, 230)
    assert tuple(image[25, 25]) == (200, 40, 50)
    assert tuple(image[0, 0]) == BACKGROUND
    assert (image == (50, 90, 230)).all(axis=2).sum() == mask("circle", 10).sum()


@pytest.mark.parametrize(
    ("texture", "rows"),
    [
        ("striped", ["##..", "#..#", "..##", ".##."]),
        ("dotted", ["##..", "##..", "....", "...."]),
        ("checkered", ["##..", "##..", "..##", "..##"]),
    ],
)
def test_textures_repeat_every_four_pixels(texture: Texture, rows: list[str]) -> None:
    # The large square leaves out the outermost ring of its box, so row 2 of the box starts a cell.
    thing = Thing("square", "red", "large", texture, 30, 30, (200, 100, 50))
    image = draw(Scene((thing,), 0), with_noise=False)
    dark = (image[24:36, 24:36] == (120, 60, 30)).all(axis=2)
    bright = (image[24:36, 24:36] == (200, 100, 50)).all(axis=2)
    assert (dark ^ bright).all()
    assert dark.tolist() == np.tile([[c == "#" for c in row] for row in rows], (3, 3)).tolist()


def test_noise_is_a_rounded_gaussian() -> None:
    plain = draw(scene_of(), with_noise=False).astype(int)
    noisy = draw(scene_of()).astype(int)
    assert (noisy - plain)[:10].std() == pytest.approx(6, rel=0.05)
    drawn = noise(3, 40_000)
    assert drawn.mean() == pytest.approx(0, abs=0.1)
    assert drawn.std() == pytest.approx(6, rel=0.02)
    assert np.mean(np.abs(drawn) <= 6) == pytest.approx(0.721, abs=0.01)  # P(|g| < 6.5 / 6)
    assert noise(3, 7).tolist() == drawn[:7].tolist()
    table = gaussian(6.0)
    assert len(table) == 65536
    assert (np.diff(table) >= 0).all()
    assert table.tolist() == (-table[::-1]).tolist()
    assert table.std() == pytest.approx(np.sqrt(36 + 1 / 12), rel=1e-3)


def test_images_are_identified_by_their_scene() -> None:
    source = SceneImage(scene_of(), "world/12")
    assert isinstance(source, ImageSource)
    assert source.name == "world/12"
    assert source.key.startswith("scene:")
    assert source.key == SceneImage(scene_of(), "another name").key
    assert source.key != SceneImage(scene_of(seed=6), "world/12").key
    image = source.open()
    assert image.mode == "RGB"
    assert np.array_equal(np.asarray(image), draw(source.scene))


def test_pixel_difference() -> None:
    a, b = np.zeros((2, 2, 3), np.uint8), np.zeros((2, 2, 3), np.uint8)
    b[0, 0] = (255, 0, 9)
    assert pixel_difference(a, b) == pixel_difference(b, a) == 22.0
    assert pixel_difference(a, a) == 0.0


def test_things_off_the_canvas_are_refused() -> None:
    with pytest.raises(UnbagError) as error:
        draw(Scene((Thing("circle", "red", "large", "plain", 5, 30, (9, 9, 9)),), 0))
    assert "a circle at (5, 30) leaves the canvas" in str(error.value)


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
def test_batches_equal_single_images(
    world: World, is_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thing by thing as on a CPU, and pixel by pixel as on a GPU."""
    if is_gpu:
        monkeypatch.setattr(rendering, "_draw_by_things", rendering._draw_by_pixels)
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
    first, again, other = (
        draw_batch(table, pack(scenes), pixels=64, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    added = (first - clean)[0] * 255
    assert float(added.mean()) == pytest.approx(0, abs=0.2)
    assert float(added.std()) == pytest.approx(6, rel=0.02)
    assert 0 <= float(first.min()) <= float(first.max()) <= 1


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


def test_absent_things_are_marked() -> None:
    scenes = some_scenes(UNIT)[:2]
    packed = pack(scenes)
    assert packed.present_NT.tolist() == [[False] * 5, [True] + [False] * 4]
    thing = scenes[1].things[0]
    assert (packed.x_NT[1, 0], packed.y_NT[1, 0]) == (thing.x, thing.y)
    assert packed.rgb_NT3[1, 0].tolist() == list(thing.rgb)
    row = sprite_rows("unit")[thing.shape, thing.size, thing.texture]
    assert packed.sprite_NT[1, 0] == row
    assert pack(scenes, max_things=1).present_NT.shape == (2, 1)
