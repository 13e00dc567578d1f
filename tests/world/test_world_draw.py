from hashlib import blake2b

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.types import ImageSource
from unbag.world.rendering import BACKGROUND, SceneImage, draw, gaussian, noise, pixel_difference
from unbag.world.scenes import RENDERER, Scene, Thing
from unbag.world.shapes import mask
from unbag.world.vocabulary import DEFAULT, UNIT, Texture


def scene_of(texture: Texture = "plain", *, seed: int = 5) -> Scene:
    back = Thing("square", "red", "large", "plain", 30, 30, (200, 40, 50))
    front = Thing("circle", "blue", "large", texture, 40, 35, (50, 90, 230))
    return Scene((back, front), seed)


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


def test_the_renderer_never_changes_silently() -> None:
    """A change here needs a new RENDERER: old records must draw as they did, or say they cannot."""
    textures: tuple[Texture, ...] = ("plain", "striped", "dotted", "checkered")
    assert RENDERER == 1
    assert {t: digest([draw(s) for s in every_shape(t)]) for t in textures} == {
        "plain": "c670dd99cb7b1b2a",
        "striped": "d7d1fe5aed86c09d",
        "dotted": "135f15aae79fc07f",
        "checkered": "d9cbc5a7629155c5",
    }


def test_images_are_byte_identical() -> None:
    image = draw(scene_of())
    assert image.shape == (64, 64, 3)
    assert image.dtype == np.uint8
    assert image.tobytes() == draw(scene_of()).tobytes()
    assert (draw(scene_of(seed=6)) != image).any()


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


def test_noise_is_gaussian_everywhere() -> None:
    plain = draw(scene_of(), with_noise=False).astype(int)
    noisy = draw(scene_of()).astype(int)
    assert (noisy - plain)[:10].std() == pytest.approx(6, rel=0.05)
    drawn = noise(3, 40_000)
    assert drawn.mean() == pytest.approx(0, abs=0.1)
    assert drawn.std() == pytest.approx(6, rel=0.02)
    assert np.mean(np.abs(drawn) <= 6) == pytest.approx(0.721, abs=0.01)  # P(|g| < 6.5 / 6)
    assert noise(3, 7).tolist() == drawn[:7].tolist()


def test_the_table_of_the_gaussian() -> None:
    table = gaussian(6.0)
    assert len(table) == 65536
    assert (np.diff(table) >= 0).all()
    assert table.tolist() == (-table[::-1]).tolist()
    assert table.std() == pytest.approx(np.sqrt(36 + 1 / 12), rel=1e-3)


def test_images_are_known_by_their_scene() -> None:
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


def test_the_unit_world_is_drawn_small() -> None:
    scene = Scene((Thing("ring", "red", "small", "plain", 3, 28, (9, 9, 9)),), 0, world=UNIT.name)
    assert draw(scene).shape == (32, 32, 3)
