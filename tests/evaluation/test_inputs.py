"""What people pass in place of a scorer, a benchmark, an image or a caption."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images

import unbag as ub
from unbag.api import evaluate
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.baselines import load
from unbag.reports.exports import report
from unbag.runs.cache import TensorCache, default_cache
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Ensemble, EvalProtocol, Item

from .stub import Odd


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """On its side, as its camera says."""
    row = np.arange(48, dtype=np.uint8).reshape(2, 8, 3)
    exif = Images.Exif()
    exif[274] = 6
    Images.fromarray(row).save(tmp_path / "photo.png", exif=exif)
    return tmp_path / "photo.png"


def refused(call: Any) -> str:
    with pytest.raises(ub.UnbagError) as caught:
        call()
    return str(caught.value)


def test_evaluate_takes_a_dual_encoder_and_names(encoder: Any, toy: Benchmark) -> None:
    assert ub.evaluate(encoder, toy)[0].overall == ub.evaluate(Cosine(encoder), toy)[0].overall
    [result] = ub.evaluate("caption:short", "world-binding")
    assert (result.scorer, result.benchmark) == ("caption:short", "world-binding")


def test_evaluate_says_what_to_give(encoder: Any, toy: Benchmark) -> None:
    assert refused(lambda: ub.evaluate(type(encoder), toy)) == (  # type: ignore[arg-type]
        "Colours is a class\n"
        "  expected: a scorer: name, fingerprint, scoring, is_blind and score(queries)\n"
        "  hint:     make one: Colours(...)"
    )
    nothing: Any = 3
    assert 'write a name such as "tiny:base", or ub.wrap(' in refused(
        lambda: ub.evaluate(nothing, toy)
    )
    assert "a int was given in place of a benchmark" in refused(
        lambda: ub.evaluate(load("short"), nothing)
    )


def test_evaluate_may_leave_out_what_is_missing(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    (tmp_path / "pictures/2.png").unlink()
    assert "--missing skip" in refused(lambda: ub.evaluate(encoder, toy))
    assert ub.evaluate(encoder, toy, missing="skip")[0].overall["accuracy"].n == 25


def test_score_takes_a_dual_encoder_a_name_and_an_image(encoder: Any, photo: Path) -> None:
    captions = ["rr red", "bb blue"]
    expected = ub.score(photo, captions, Cosine(encoder)).tolist()
    assert ub.score(photo, captions, encoder).tolist() == expected
    with Images.open(photo) as image:
        assert ub.score(image, captions, encoder).tolist() == expected
    assert ub.score(photo, captions, "caption:short").argmax() == 0


def test_an_image_is_seen_as_its_file_is(photo: Path) -> None:
    heights = Odd(lambda queries: [float(query.image.open().height) for query in queries])
    with Images.open(photo) as image:
        assert ub.score(image, ["a"], heights).tolist() == [8]
        palette = image.convert("P")
    palette.info["transparency"] = b"\x00\x80"
    assert ub.score(palette, ["a"], heights).tolist() == [8]


def test_score_says_what_to_give(encoder: Any, photo: Path) -> None:
    odd: Any = ["a", None]
    assert refused(lambda: ub.score(photo, odd, encoder)) == (
        "caption 2 of 2 is None\n"
        "  expected: a string, or unbag.types.Ensemble\n"
        "  hint:     leave it out, or write it as text"
    )
    nothing: Any = None
    assert refused(lambda: ub.score(photo, nothing, encoder)).startswith("captions are None")
    array: Any = np.zeros((2, 2, 3), np.uint8)
    message = refused(lambda: ub.score(array, ["a"], encoder))
    assert message.startswith("a ndarray was given in place of an image")
    assert "unbag.data.PixelImage(array)" in message
    assert ub.score(PixelImage(array), ["a"], encoder).shape == (1,)
    assert "a NoneType was given in place of a scorer" in refused(
        lambda: ub.score(photo, ["a"], nothing)
    )
    grey = Images.fromarray(np.zeros((2, 2), np.int32))
    assert "pixels of mode I" in refused(lambda: ub.score(grey, ["a"], encoder))


def test_an_image_whose_file_is_cut_off_is_named(encoder: Any, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Images.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    with Images.open(tmp_path / "cut.png") as image:
        message = refused(lambda: ub.score(image, ["a"], encoder))
    assert message.startswith("the image image cannot be opened: OSError")


def test_a_key_in_two_cache_files_means_the_same_in_every_process(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        rows = {"vector": torch.full((2, 3), value)}
        TensorCache(tmp_path, progress=Silent()).put(["a", f"b{value}"], rows)
    alone = TensorCache(tmp_path, progress=Silent()).get(["a"])["vector"][0]
    for keys in (["b1.0", "b2.0", "a"], ["b2.0", "b1.0", "a"]):
        result = TensorCache(tmp_path, progress=Silent()).get(keys)["vector"]
        assert torch.equal(result[keys.index("a")], alone)


def test_a_user_without_a_home_still_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert default_cache().name == "unbag"


def test_protocols_are_checked() -> None:
    with pytest.raises(UnbagError, match="the tie rule 'official' is not known") as error:
        EvalProtocol(ties="official")  # type: ignore[arg-type]
    assert "official_ties=True" in str(error.value)
    with pytest.raises(UnbagError, match="confidence 99"):
        EvalProtocol(confidence=99)


def test_one_text_is_no_list_of_texts(items: list[Item]) -> None:
    with pytest.raises(UnbagError, match="item 'x': captions is one text"):
        Item("x", items[0].images, "ab", np.array([[True, False]]))  # type: ignore[arg-type]
    with pytest.raises(UnbagError, match="ensemble 'x' has no prompts"):
        Ensemble("x", "a photo")  # type: ignore[arg-type]


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(UnbagError, match=r"cannot write .*page\.html"):
        report(evaluate("oracle:semantic", "world-binding"), tmp_path / "page.html")
