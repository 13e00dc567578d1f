"""Oracles: scorers that follow a known rule, such as the truth, a bag of words or no image at all.

They bracket every metric: a benchmark on which the bag-of-words oracle or a blind oracle beats
chance does not test what it claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from unbag.errors import UnbagError, unknown_name
from unbag.types import FloatArray, ImageSource, Item, Query, Sparse
from unbag.types.items import prompts_of
from unbag.world.grammar import ContentWord, content_words, holds, parse
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene


def load(rest: str, *, device: str) -> Oracle:
    """Load the oracle named by "oracle:REST". Oracles need no device."""
    known = {"semantic": semantic, "bag-of-words": bag_of_words, "blind": position_blind}
    if rest not in known:
        raise unknown_name("oracle", rest, known, hint="write it like oracle:semantic")
    return known[rest]()


@dataclass(frozen=True)
class Oracle:
    """A scorer that follows a known rule."""

    name: str
    fingerprint: str
    scoring: str
    is_blind: bool
    judge: Callable[[ImageSource, str], float]

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """One score per query. The score of a prompt ensemble is the mean over its prompts."""
        values = []
        for query in queries:
            texts = prompts_of(query.caption)
            values.append(sum(self.judge(query.image, text) for text in texts) / len(texts))
        return np.array(values, dtype=np.float64)


def semantic() -> Oracle:
    """The perfect model: 1 if the caption is true of the scene, else 0.

    Texts outside the grammar of the world (such as shuffled captions) score 0.
    """

    def judge(image: ImageSource, text: str) -> float:
        scene = scene_of(image)
        try:
            return float(holds(parse(text), scene))
        except UnbagError:
            return 0.0

    return Oracle("oracle:semantic", "oracle:semantic/1", "truth", False, judge)


def bag_of_words() -> Oracle:
    """A bag-of-words model: the share of content words that are true of some thing.

    It ignores words for relations, numbers and negation, so captions that differ only in these are
    exact ties.
    """
    return Oracle(
        "oracle:bag-of-words",
        "oracle:bag-of-words/1",
        "bag of words",
        False,
        lambda image, text: bag_score(text, scene_of(image)),
    )


def bag_score(text: str, scene: Scene) -> float:
    """The score of the bag-of-words oracle; 0 for a text without content words."""

    def is_true_of_some(word: ContentWord) -> bool:
        if word.value is None:
            return bool(scene.things)
        return any(getattr(thing, word.attribute) == word.value for thing in scene.things)

    words = content_words(text)
    return sum(map(is_true_of_some, words)) / len(words) if words else 0.0


def position_blind() -> Oracle:
    """A fixed preference among captions, independent of the image."""
    return Oracle(
        "oracle:blind", "oracle:blind/1", "caption only", True, lambda image, text: _hashed(text)
    )


def detector(items: Sequence[Item], *, epsilon: float = 0.0, seed: int = 0) -> Oracle:
    """An edit detector: 1 for the original caption of an image, 0 for every other caption.

    Args:
        items: The items of the benchmark. The first caption of an item is its original.
        epsilon: Scale of the noise that breaks ties among edits.
        seed: Seed of that noise.
    """
    originals = {
        (image.key, text)
        for item in items
        for image in item.images
        for text in prompts_of(item.captions[0])
    }

    def judge(image: ImageSource, text: str) -> float:
        noise = _hashed(f"{seed}|{image.key}|{text}") if epsilon else 0.0
        return float((image.key, text) in originals) + epsilon * noise

    identity = blake2b(repr(sorted(originals)).encode(), digest_size=8).hexdigest()
    mark = f"oracle:detector/1/{identity}/{epsilon:g}/{seed}"
    return Oracle("oracle:detector", mark, "edit detection", False, judge)


def best_blind(items: Sequence[Item]) -> Oracle:
    """The best caption-only scorer: how often each caption is true of an image of its item.

    A benchmark on which it beats chance is partly solvable without images. A fixed hash breaks
    ties, so that chance appears as 50 and not as ties. Unseen captions get the mean of the seen
    ones.
    """
    shares_of: defaultdict[str, list[float]] = defaultdict(list)
    for item in items:
        for caption, share in zip(item.captions, _shares(item), strict=True):
            for text in prompts_of(caption):
                shares_of[text].append(share)
    share_of = {text: float(np.mean(shares)) for text, shares in shares_of.items()}
    mean_share = float(np.mean(list(share_of.values()))) if share_of else 0.0

    def judge(image: ImageSource, text: str) -> float:
        return share_of.get(text, mean_share) + 1e-9 * _hashed(text)

    identity = blake2b(repr(sorted(share_of.items())).encode(), digest_size=8).hexdigest()
    return Oracle(
        "oracle:best-blind", f"oracle:best-blind/1/{identity}", "caption only", True, judge
    )


def scene_of(image: ImageSource) -> Scene:
    """The scene of an image of the world."""
    if isinstance(image, SceneImage):
        return image.scene
    raise UnbagError(
        f"image {image.name!r} has no scene",
        expected="an image drawn from the built-in world: oracles read the scene, not the pixels",
        hint="run oracles on the world benchmarks only",
    )


def _shares(item: Item) -> FloatArray:
    """[C]: the share of the item's images that each caption is true of, or its mean rating."""
    if isinstance(item.truth, Sparse):
        images, captions = item.truth.shape
        count_C = np.bincount(item.truth.column_T, minlength=captions).astype(np.float64)
        return count_C / images
    share_C: FloatArray = np.asarray(item.truth, dtype=np.float64).mean(axis=0)
    return share_C


def _hashed(text: str) -> float:
    """A pseudo-random number in [0, 1), the same on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
