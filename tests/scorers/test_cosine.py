"""Cosine scoring and the way from a name to a scorer."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from PIL.Image import Image
from torch import Tensor

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.baselines import CaptionOnly, load
from unbag.models.loading import Placement, choose_device, load_model, needs_device
from unbag.scorers import Cosine, make_scorer
from unbag.types import DualEncoder, EmbeddingScorer, Ensemble, MatrixScorer, Query, Scorer


class Colours:
    """A real, if simple, dual encoder: mean colour of an image, letters of a caption."""

    name = "colours"
    fingerprint = "colours-1"
    device = "cpu"
    scale = 1.0
    bias = 0.0
    context = 77

    def prepare(self, image: Image) -> Tensor:
        return torch.from_numpy(np.asarray(image, dtype=np.float32)).mean(dim=(0, 1))

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [len(caption) for caption in captions]

    def encode_images(self, pixels: Tensor) -> Tensor:
        return torch.nn.functional.normalize(pixels, dim=-1)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        rows = [[float(c.count(letter)) for letter in "rgb"] for c in captions]
        return torch.nn.functional.normalize(torch.tensor(rows), dim=-1)


def image(red: int, green: int, blue: int) -> PixelImage:
    return PixelImage(np.full((2, 2, 3), (red, green, blue), dtype=np.uint8))


def test_it_has_the_shapes_it_claims() -> None:
    assert isinstance(Colours(), DualEncoder)
    scorer = Cosine(Colours())
    assert isinstance(scorer, EmbeddingScorer)
    assert isinstance(scorer, MatrixScorer)


def test_the_worked_example_of_the_specification() -> None:
    # (10, 11, 12) against (12, 11, 10): 361 / 365
    caption = "r" * 12 + "g" * 11 + "b" * 10
    score = Cosine(Colours()).score([Query(image(10, 11, 12), caption)])
    assert score.item() == pytest.approx(361 / 365, abs=1e-6)


def test_vectors_of_two_widths_have_no_cosine() -> None:
    for compare in (Cosine(Colours()).compare, Cosine(Colours()).compare_all):
        with pytest.raises(UnbagError, match="'colours' gives 3 numbers for an image and 4 for a"):
            compare(torch.ones(2, 3), torch.ones(2, 4))


def test_a_model_may_return_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(image(10, 11, 12), "rgb")
    expected = Cosine(Colours()).score([query])
    for method in ("prepare", "encode_images", "encode_texts"):
        plain = getattr(Colours, method)
        monkeypatch.setattr(
            Colours, method, lambda self, one, plain=plain: plain(self, one).numpy()
        )
    assert torch.equal(Cosine(Colours()).score([query]), expected)


def test_images_of_two_sizes_make_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Colours, "prepare", lambda self, image: torch.zeros(image.size))
    wide = PixelImage(np.zeros((2, 5, 3), dtype=np.uint8))
    with pytest.raises(UnbagError, match=r"'colours' prepared images of different sizes: \(2, 2\)"):
        Cosine(Colours()).score_matrix([image(1, 2, 3), wide], ["r"])


def test_matrix_and_single_scores_agree() -> None:
    scorer = Cosine(Colours())
    images, captions = [image(9, 0, 0), image(1, 5, 2)], ["rrg", "b", "gb"]
    matrix = scorer.score_matrix(images, captions)
    single = scorer.score([Query(p, c) for p in images for c in captions]).reshape(2, 3)
    torch.testing.assert_close(matrix.double(), single, atol=1e-6, rtol=0)


def test_an_ensemble_is_the_normalised_mean_of_unit_vectors() -> None:
    # Prompts (1, 0) and (.6, .8) in the first two coordinates: mean (.8, .4), normalised.
    ensemble = Ensemble("x", ("r", "rrrgggg"))
    score = Cosine(Colours()).score([Query(image(255, 0, 0), ensemble)])
    assert score.item() == pytest.approx(0.8 / np.hypot(0.8, 0.4), abs=1e-6)


def test_names_lead_to_scorers() -> None:
    assert isinstance(load_model("caption:short"), CaptionOnly)
    assert isinstance(make_scorer(Colours()), Cosine)
    assert make_scorer(Colours(), "cosine").name == "colours"
    blind = load("short")
    assert make_scorer(blind) is blind
    longer, shorter, other = blind.score([Query(image(0, 0, 0), c) for c in ("abc", "a", "b")])
    assert -3 <= longer < -2
    assert -1 <= shorter < 0
    assert shorter != other


def test_bad_names_and_things_are_explained() -> None:
    with pytest.raises(UnbagError, match="did you mean 'caption:short'"):
        load("shrt")
    with pytest.raises(UnbagError, match="'cosine' needs one vector per image and cap"):
        make_scorer(load("short"), "cosine")
    with pytest.raises(UnbagError, match=r"(?s)unknown scorer 'zzzz'.*one of .*match"):
        make_scorer(load("short"), "zzzz")
    with pytest.raises(UnbagError, match="the model 'math:pi' is a float"):
        load_model("math:pi")
    with pytest.raises(UnbagError, match="unknown model 'tinny:base'"):
        load_model("tinny:base")
    with pytest.raises(UnbagError, match="the scorer 'builtins:str' returned a str"):
        make_scorer(Colours(), "builtins:str")
    with pytest.raises(UnbagError, match="the scorer 'math:pi' is a float"):
        make_scorer(Colours(), "math:pi")


def test_devices() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device() in {"cpu", "cuda", "mps"}
    with pytest.raises(UnbagError, match="the device 'toaster' cannot be used"):
        choose_device("toaster")


def test_a_device_that_nobody_uses_need_not_be_there() -> None:
    """Such as a GPU, where all models are behind servers."""
    assert choose_device("cuda:99", is_needed=False) == "cpu"
    with pytest.raises(UnbagError, match="the device 'toaster' cannot be used"):
        choose_device("toaster", is_needed=False)
    specs = (
        "server:llava@http://x/v1",
        "caption:short",
        "caption:likelihood:gpt",
        "hf:clip",
        "m:A",
    )
    assert [needs_device(spec) for spec in specs] == [False, False, True, True, True]


def test_scorers_are_recognised_by_shape() -> None:
    assert isinstance(load("long"), Scorer)
    assert not isinstance(Colours(), Scorer)


def test_a_precision_the_model_cannot_follow_is_refused() -> None:
    with pytest.raises(UnbagError, match="the model 'tiny:base' cannot compute in bfloat16"):
        load_model("tiny:base", placement=Placement(dtype="bfloat16"))
    with pytest.raises(UnbagError, match="the model 'tiny:base' cannot be compiled"):
        load_model("tiny:base", placement=Placement(compiles=True))
    assert load_model("tiny:base", placement=Placement(dtype="float32")).name == "tiny:base"


def test_a_loader_is_told_what_it_asks_for() -> None:
    def wants(rest: str, *, dtype: str) -> str:
        return rest + dtype

    assert Placement(dtype="float16").arguments(wants, "x") == {"dtype": "float16"}
