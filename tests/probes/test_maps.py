"""Maps of words over patches: cosines, readers, and painted cells of chat models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.features import JOINT
from unbag.models.loading import load_model
from unbag.models.tiny import load as load_tiny
from unbag.probes.base import ProbeData, Row
from unbag.probes.diagnosis.diagnose import make_subject
from unbag.probes.maps import (
    BATCH,
    COVERED_COSINES,
    COVERED_LOGS,
    GRID,
    WHOLE,
    chat_of,
    covered,
    covered_maps,
    map_words,
    reader_maps,
    word_maps,
)
from unbag.probes.space import EncoderSpace, LayerView, TokenView
from unbag.readouts.decoder.occlusion import PROMPT
from unbag.readouts.pacl import Pacl, PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.vlm2vec.data import WITHOUT, instruction
from unbag.readouts.vlm2vec.model import Vlm2Vec
from unbag.readouts.vlm2vec.readout import AskedCosine
from unbag.runs.progress import Advance, Silent
from unbag.scorers.chat import LIKELIHOOD, YES
from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import make_scorer
from unbag.types import FloatArray, ImageSource, Scorer, TokenFeatures

IMAGE = PixelImage(np.zeros((8, 8, 3), dtype=np.uint8))


AXES = np.eye(4, dtype=np.float32)


@dataclass
class Parts:
    """Four patches, one for each axis; a word points to the axis of its first letter."""

    patches: int = 4
    special: tuple[int, int] = (1, 1)
    """Pieces before and after the words."""
    counts_oddly: bool = False

    def images(self, images: Sequence[ImageSource]) -> TokenFeatures:
        rows = np.resize(AXES, (self.patches, 4))[None]
        return TokenFeatures(torch.from_numpy(rows), torch.ones(rows.shape[:2]) > 0)

    def captions(self, captions: Sequence[str]) -> TokenFeatures:
        result = [self._pieces(caption) for caption in captions]
        long = max(map(len, result))
        vector_NLW = np.zeros((len(result), long, 4), dtype=np.float32)
        mask_NL = np.zeros((len(result), long), dtype=np.bool_)
        for at, rows in enumerate(result):
            vector_NLW[at, : len(rows)], mask_NL[at, : len(rows)] = rows, True
        return TokenFeatures(torch.from_numpy(vector_NLW), torch.from_numpy(mask_NL))

    def _pieces(self, caption: str) -> FloatArray:
        # Two letters are a piece; its first letter says where it points.
        pieces = [word[i : i + 2] for word in caption.split() for i in range(0, len(word), 2)]
        extra = 1 if self.counts_oddly and len(pieces) > 2 else 0
        rows = [AXES[ord(piece[0]) - ord("a")] for piece in pieces]
        start, end = np.full((self.special[0], 4), 0.5), np.full((self.special[1] + extra, 4), 0.5)
        return np.concatenate([start, np.array(rows), end])


@dataclass
class Space:
    tokens: TokenView | None
    name: str = "a space"
    fingerprint: str = "1"
    layers: LayerView | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        raise NotImplementedError

    def captions(self, captions: Sequence[str]) -> FloatArray:
        raise NotImplementedError


@pytest.mark.parametrize("special", [(0, 0), (0, 1), (1, 1)])
def test_a_word_lights_up_its_patch(special: tuple[int, int]) -> None:
    result = word_maps(Space(Parts(special=special)), IMAGE, "a c dd")
    assert [one.word for one in result.maps] == ["a", "c", "dd"]
    shown = [one.values for one in result.maps]
    assert shown == [((1, 0), (0, 0)), ((0, 0), (1, 0)), ((0, 0), (0, 1))]
    assert (result.title, result.caption) == ("a space", "a c dd")
    assert result.image.startswith("data:image/")


def test_a_word_of_two_pieces_is_their_mean() -> None:
    result = word_maps(Space(Parts()), IMAGE, "b aaca")
    assert [one.word for one in result.maps] == ["b", "aaca"]
    # (a + c) / |a + c|
    assert result.maps[1].values == ((0.7071, 0), (0.7071, 0))


def test_pieces_are_shown_where_words_do_not_add_up() -> None:
    result = word_maps(Space(Parts(counts_oddly=True)), IMAGE, "a b c")
    assert [one.word for one in result.maps] == [f"piece {i}" for i in range(1, 7)]
    result = word_maps(Space(Parts(special=(2, 1))), IMAGE, "a b")
    assert [one.word for one in result.maps] == [f"piece {i}" for i in range(1, 6)]


def test_a_long_caption_is_cut_to_24_words() -> None:
    assert len(word_maps(Space(Parts()), IMAGE, "a b " * 20).maps) == 24


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (None, "a space has no vectors of patches and words"),
        (Parts(patches=5), r"a space has 5 patches in .*\n.*a square number"),
        (Parts(patches=0), "no vectors for the patches of"),
    ],
)
def test_spaces_without_maps(parts: Parts | None, words: str) -> None:
    with pytest.raises(UnbagError, match=words):
        word_maps(Space(parts), IMAGE, "a")


def test_the_tiny_model_has_maps_of_words() -> None:
    space = EncoderSpace(load_tiny("base"))
    image = PixelImage(np.full((64, 64, 3), 90, dtype=np.uint8))
    result = word_maps(space, image, "a red star, left of a cup.")
    assert [one.word for one in result.maps] == ["a", "red", "star,", "left", "of", "a", "cup."]
    assert space.tokens is not None
    words = space.tokens.captions(["a red star, left of a cup."]).vector_NLW[0]
    patches = space.tokens.images([image]).vector_NLW[0]
    side = len(result.maps[0].values)
    assert side**2 == len(patches)
    cosine_L = np.round((patches @ words[1]).numpy().astype(float), 4)
    assert result.maps[1].values == tuple(map(tuple, cosine_L.reshape(side, side).tolist()))


ENCODER = load_tiny("base")


PATCHES = 64


STAR_LEFT = "a red star, left of a cup."


NOISE = PixelImage(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))


class Cosines(Reader):
    """Compares nothing; its maps are cosines of parts, so that the answer is known."""

    name, view, settings = "cosines", JOINT, PooledSettings()
    maps_show = "Cosines."
    maps_are_signed = True
    columns = 99

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        words_NTD = caption.vector_NLW[:, : self.columns]
        return words_NTD @ image.vector_NLW.transpose(1, 2)


def map_arrays(reader: Reader, caption: str = STAR_LEFT) -> dict[str, np.ndarray]:
    result = reader_maps(ReaderScorer(ENCODER, reader), NOISE, caption)
    return {f"{at} {one.word}": np.array(one.values) for at, one in enumerate(result.maps)}


def test_a_reader_of_cosines_draws_what_the_model_draws() -> None:
    result = reader_maps(ReaderScorer(ENCODER, Cosines()), NOISE, STAR_LEFT)
    own = word_maps(EncoderSpace(ENCODER), NOISE, STAR_LEFT)
    assert (result.title, result.about) == ("tiny:base+cosines", "Cosines.")
    assert (result.is_signed, own.is_signed) == (True, False)
    assert (result.caption, result.image) == (own.caption, own.image)
    assert [one.word for one in result.maps] == STAR_LEFT.split()
    for mine, theirs in zip(result.maps, own.maps, strict=True):
        assert np.allclose(mine.values, theirs.values, atol=2e-4)


def test_words_behind_the_last_column_are_not_drawn() -> None:
    reader = Cosines()
    reader.columns = 3
    assert list(map_arrays(reader)) == ["0 a", "1 red", "2 star,"]


def test_pieces_are_drawn_where_words_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = ReaderScorer(ENCODER, Cosines())
    monkeypatch.setattr(scorer, "count_tokens", lambda captions: [4] * len(captions))
    result = reader_maps(scorer, NOISE, STAR_LEFT)
    assert [one.word for one in result.maps] == [f"piece {at}" for at in range(1, 5)]


def test_a_reader_of_whole_captions_is_asked_with_each_word_alone() -> None:
    sizes = Sizes(PATCHES, ENCODER.config.picture_width, ENCODER.config.joint)
    torch.manual_seed(0)
    reader = Pacl(PaclSettings(), sizes).eval()
    result = map_arrays(reader, "a red cup")
    assert list(result) == [f"0 {WHOLE}", "1 a", "2 red", "3 cup"]
    assert np.allclose(result["2 red"], map_arrays(reader, "red")[f"0 {WHOLE}"], atol=2e-4)
    assert not np.allclose(result["2 red"], result["3 cup"], atol=1e-2)
    assert result["2 red"].shape == (8, 8)
    assert list(map_arrays(reader, "")) == [f"0 {WHOLE}"]


def test_the_blind_and_the_oblong_say_so() -> None:
    sizes = Sizes(0, ENCODER.config.picture_width, ENCODER.config.caption_width)
    pooled = ReaderScorer(ENCODER, Pooled(PooledSettings(width=8), sizes))
    for scorer in (pooled, Cosine(ENCODER)):
        with pytest.raises(
            UnbagError, match=f"{scorer.name.replace('+', '.')} scores without a map"
        ):
            reader_maps(scorer, NOISE, STAR_LEFT)

    class Oblong(Cosines):
        def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
            return torch.zeros((1, 5, 64))

        view = replace(
            JOINT,
            name="joint-seven",
            encode_images=lambda encoder, pixels: _seven(JOINT.encode_images(encoder, pixels)),
        )

    with pytest.raises(UnbagError, match="has 7 patches in"):
        reader_maps(ReaderScorer(ENCODER, Oblong()), NOISE, STAR_LEFT)


def _seven(parts: TokenFeatures) -> TokenFeatures:
    mask_NL = parts.mask_NL.clone()
    mask_NL[:, 7:] = False
    return replace(parts, mask_NL=mask_NL)


SIDE = 48


CELL = SIDE // GRID


LAMP = (1, 4)


"""Row and column of the one cell that is bright."""


MEAN = round(255 / GRID**2)


CAPTION = "a lamp left of a cup"


def lit() -> PixelImage:
    """Black, with one white cell."""
    pixels = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    row, column = (CELL * at for at in LAMP)
    pixels[row : row + CELL, column : column + CELL] = 255
    return PixelImage(pixels)


@dataclass
class Lamps:
    """Sees how bright one cell is; "lamp" is as probable as that, every other word is a half."""

    name: str = "lamps"
    fingerprint: str = "lamps-1"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    together: list[int] = field(default_factory=list)

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        self.asked.append((prompt, tuple(continuations)))
        light = math.log(brightness(image))
        # A word is two tokens, and nothing tells which.
        words = [[(light if w == "lamp" else math.log(0.5)) / 2 for w in c.split()]
                 for c in continuations]  # fmt: skip
        return [[half for one in row for half in (one, one)] for row in words]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        raise NotImplementedError

    def last_hidden(self, asks: Sequence[tuple[ImageSource | None, str]]) -> Tensor:
        """An image is as far along one axis as it is bright, a caption if it says lamp."""
        self.together.append(len(asks))
        far = [brightness(p) if p else float("lamp" in text.split()) for p, text in asks]
        return torch.tensor([[one, 1.0] for one in far])


def brightness(image: ImageSource | None) -> float:
    assert image is not None
    row, column = (CELL * at for at in LAMP)
    pixels = np.asarray(image.open())[row : row + CELL, column : column + CELL]
    return float(pixels.mean() / 255)


def values(scorer: Scorer, caption: str = CAPTION) -> list[tuple[str, np.ndarray]]:
    result = covered_maps(scorer, lit(), caption)
    return [(one.word, np.array(one.values)) for one in result.maps]


def only(value: float) -> np.ndarray:
    """A map of one cell."""
    result = np.zeros((GRID, GRID))
    result[LAMP] = value
    return result


@pytest.mark.parametrize("shape", [(40, 33), (6, 6), (7, 100)])
def test_a_painted_cell_is_all_that_changes(shape: tuple[int, int]) -> None:
    whole = np.random.default_rng(0).integers(0, 100, (*shape, 3), dtype=np.uint8)
    first, *painted = covered(PixelImage(whole, "noise"))
    assert first.name == "noise"
    assert first.key == PixelImage(whole).key
    assert len(painted) == GRID**2
    colour = whole.reshape(-1, 3).mean(axis=0).round()
    times = np.zeros(shape, dtype=int)
    for number, one in enumerate(painted):
        row, column = divmod(number, GRID)
        is_in = np.zeros(shape, dtype=bool)
        (top, bottom), (left, right) = (
            (round(at * side / GRID), round((at + 1) * side / GRID))
            for at, side in zip((row, column), shape, strict=True)
        )
        is_in[top:bottom, left:right] = True
        assert is_in.any()
        assert (one.pixels[is_in] == colour).all()
        assert (one.pixels[~is_in] == whole[~is_in]).all()
        times += is_in
    # Every pixel is painted over once.
    assert (times == 1).all()


def test_an_image_smaller_than_the_grid_has_no_cells() -> None:
    small = PixelImage(np.zeros((5, 60, 3), dtype=np.uint8), "thin.png")
    with pytest.raises(UnbagError, match=r"thin\.png has 60 x 5 pixels") as error:
        covered_maps(YES(Lamps()), small, CAPTION)
    assert error.value.expected == "at least 6 x 6, one for each cell of a map"


def test_the_word_that_one_cell_tells_is_on_its_map_alone() -> None:
    model = Lamps()
    result = covered_maps(LIKELIHOOD(model), lit(), CAPTION)
    assert (result.title, result.asked, result.about, result.is_signed) == (
        "lamps", PROMPT, COVERED_LOGS, True,
    )  # fmt: skip
    maps = values(LIKELIHOOD(model))
    assert [word for word, _ in maps] == CAPTION.split()
    by_hand = math.log(255 / MEAN)
    for word, map_LL in maps:
        assert map_LL == pytest.approx(only(by_hand if word == "lamp" else 0), abs=1e-4)
    assert [one.whole for one in result.maps[:3]] == ["log p -0.69", "log p 0.00", "log p -0.69"]
    # Where pieces of words are not known, every beginning of the caption is asked for.
    begun = ("a", "a lamp", "a lamp left", "a lamp left of", "a lamp left of a", CAPTION)
    assert set(model.asked) == {(PROMPT, begun)}


def test_a_caption_that_is_one_vector() -> None:
    model = Lamps()
    maps = values(AskedCosine(model))

    def cosine(light: float, said: float) -> float:
        return (light * said + 1) / math.hypot(light, 1) / math.hypot(said, 1)

    with_lamp = cosine(1, 1) - cosine(MEAN / 255, 1)
    without = cosine(1, 0) - cosine(MEAN / 255, 0)
    assert [word for word, _ in maps] == [WHOLE, *CAPTION.split()]
    assert maps[0][1] == pytest.approx(only(with_lamp), abs=1e-4)
    assert maps[2][1] == pytest.approx(only(with_lamp - without), abs=1e-4)
    # Without any other word the caption has the same vector.
    assert all(not map_LL.any() for word, map_LL in maps[1:] if word != "lamp")
    assert max(model.together) == BATCH
    assert sum(model.together) == 1 + GRID**2 + 1 + len(CAPTION.split())
    assert [word for word, _ in values(AskedCosine(model), "lamp")] == [WHOLE]


def test_what_is_asked_is_what_the_scorer_asks() -> None:
    question = "Is the lamp to the left of or to the right of the cup?"
    asked = covered_maps(AskedCosine(Lamps()), lit(), CAPTION)
    assert (asked.asked, asked.about) == (instruction(question), COVERED_COSINES)
    assert asked.maps[0].whole == "cosine 1.000"
    assert covered_maps(Cosine(Vlm2Vec(Lamps())), lit(), CAPTION).asked == WITHOUT


def test_texts_speak_of_cells_and_of_paint() -> None:
    for about in (COVERED_LOGS, COVERED_COSINES):
        assert "6 x 6 cells" in about
        assert "painted with the mean colour of the image" in about
        assert "patch" not in about


def test_a_long_caption_is_cut() -> None:
    assert len(values(YES(Lamps()), "lamp " * 30)) == 24


def test_a_scorer_without_a_chat_model_or_without_eyes_has_no_such_map() -> None:
    plain = Cosine(load_tiny("base"))
    assert chat_of(plain) is None
    with pytest.raises(UnbagError, match="tiny:base has no chat model"):
        covered_maps(plain, lit(), CAPTION)
    blind = make_scorer(load_model("caption:constant"))
    assert chat_of(blind) is None
    seen = map_words(make_subject(load_model("caption:constant")), one_row())
    assert seen == ((), (f"no map of words over patches: {blind.name} shows no patches",))


@pytest.mark.parametrize("make", [YES, AskedCosine, lambda model: Cosine(Vlm2Vec(model))])
def test_a_chat_model_under_examination_has_one_kind_of_map(make: type[AskedCosine]) -> None:
    model = Lamps()
    scorer = make(model)
    # Vectors of VLM2Vec come along with the cosine, and have no patches to be mapped.
    maps, notes = map_words(make_subject(model, scorer=scorer), one_row())
    assert [(one.title, one.when) for one in maps] == [(scorer.name, "")]
    assert notes == ()


def test_vlm2vec_as_a_model_has_the_map_of_its_cosine() -> None:
    model = Vlm2Vec(Lamps())
    maps, notes = map_words(make_subject(model), one_row())
    assert [one.title for one in maps] == [model.name]
    assert (maps[0].about, notes) == (COVERED_COSINES, ())


def one_row() -> ProbeData:
    return ProbeData("one image", (Row("1", lit(), CAPTION),), ())


class Counted(Silent):
    """Keeps the bars that were shown, and how far they came."""

    def __init__(self) -> None:
        super().__init__()
        self.bars: dict[str, tuple[int, int]] = {}

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        self.bars[what] = (total, 0)

        def advance(steps: int) -> None:
            total, so_far = self.bars[what]
            self.bars[what] = (total, so_far + steps)

        yield advance


@pytest.mark.parametrize(("name", "count"), [("tiny:base", 1), ("caption:constant", 0)])
def test_a_bar_tells_how_many_maps_there_will_be(name: str, count: int) -> None:
    progress = Counted()
    map_words(make_subject(load_model(name)), one_row(), progress=progress)
    assert progress.bars == {"maps": (count, count)}
