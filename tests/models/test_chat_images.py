"""An image of a shape that a chat model does not take is counted, and the others are scored."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.errors import ImageError, UnbagError
from unbag.evaluation.scoring import QueryScoring, score_image
from unbag.models.huggingface.chat import load_chat
from unbag.scorers import make_scorers
from unbag.types import Item

pytest.importorskip("transformers")
ChatFolder = Callable[[str], Path]
THREAD = PixelImage(np.zeros((900, 1, 3), dtype=np.uint8), name="thread")
LINE = PixelImage(np.zeros((1, 900, 3), dtype=np.uint8), name="line")


def test_unusable_image_raises_image_error(chat_folder: ChatFolder) -> None:
    model = load_chat(str(chat_folder("qwen2_vl")))
    message = r"cannot prepare the image thread \(1 x 900 pixels\): .*\n.*\n.*usual shape"
    with pytest.raises(ImageError, match=message) as found:
        model.logprobs(THREAD, "Is it?", ["Yes"])
    assert found.value.key == THREAD.key
    assert isinstance(found.value, UnbagError)


@pytest.mark.parametrize("protocol", ["yes", "letters"])
def test_unusable_image_alone(protocol: str, chat_folder: ChatFolder) -> None:
    (scorer,) = make_scorers(load_chat(str(chat_folder("qwen2_vl"))), protocol, "published")
    with pytest.raises(UnbagError, match=r"cannot prepare the image line \(900 x 1 pixels\)"):
        score_image(LINE, ["a dog", "a cat"], scorer)


@pytest.mark.parametrize("protocol", ["yes", "letters"])
def test_unusable_images_are_counted_as_damaged(
    protocol: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    (scorer,) = make_scorers(load_chat(str(chat_folder("qwen2_vl"))), protocol, "published")
    shown = [images[0], THREAD, images[1], LINE]
    items = [
        Item(f"i{n}", (image,), ("a dog", "a cat"), np.array([[True, False]]))
        for n, image in enumerate(shown)
    ]
    scoring = QueryScoring(scorer)
    found = {one.item: one.values for one in scoring.chunk(items)}
    assert list(scoring.damaged) == ["thread", "line"]
    assert "cannot prepare the image thread (1 x 900 pixels)" in scoring.damaged["thread"]
    alone = {one.item: one.values for one in QueryScoring(scorer).chunk([items[0], items[2]])}
    for n, item in enumerate(items):
        values = found[item.id]
        assert values is not None
        if n in (1, 3):
            assert np.isnan(values).all()
        else:
            expected = alone[item.id]
            assert expected is not None
            assert np.allclose(values, expected, atol=1e-5)
