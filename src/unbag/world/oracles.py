"""Oracles: scorers of the world whose scores follow from a rule; each fails in one way only.

They bracket every metric: a benchmark on which the bag-of-words oracle or a blind one does better
than chance does not test what it claims.
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
    """The oracle called `rest` in "oracle:rest"; it computes nothing that needs a device."""
    known = {"semantic": semantic, "bag-of-words": bag_of_words, "blind": position_blind}
    if rest not in known:
        raise unknown_name("oracle", rest, known, hint="write it like oracle:semantic")
    return known[rest]()


@dataclass(frozen=True)
class Oracle:
    """A scorer whose every number follows from a rule."""

    name: str
    fingerprint: str
    scoring: str
    is_blind: bool
    judge: Callable[[ImageSource, str], float]

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """One number a query; the number of an ensemble is the mean over its prompts."""
        values = []
        for query in queries:
            texts = prompts_of(query.caption)
            values.append(sum(self.judge(query.image, text) for text in texts) / len(texts))
        return np.array(values, dtype=np.float64)


def semantic() -> Oracle:
    """1 if the caption holds in the scene, else 0: what a perfect model would say.

    Words that make no sentence of the world (shuffled captions) say nothing, and hold nowhere.
    """

    def judge(image: ImageSource, text: str) -> float:
        scene = scene_of(image)
        try:
            return float(holds(parse(text), scene))
        except UnbagError:
            return 0.0

    return Oracle("oracle:semantic", "oracle:semantic/1", "truth", False, judge)


def bag_of_words() -> Oracle:
    """The share of content words that are true of some thing, whatever they are tied to.

    Words for relations, numbers and negation are no evidence for it, so that captions that differ
    in nothing else are exact ties.
    """
    return Oracle(
        "oracle:bag-of-words",
        "oracle:bag-of-words/1",
        "bag of words",
        False,
        lambda image, text: bag_score(text, scene_of(image)),
    )


def bag_score(text: str, scene: Scene) -> float:
    """What the bag-of-words oracle gives; 0 for a text without content words."""

    def is_true_of_some(word: ContentWord) -> bool:
        if word.value is None:
            return bool(scene.things)
        return any(getattr(thing, word.attribute) == word.value for thing in scene.things)

    said = content_words(text)
    return sum(map(is_true_of_some, said)) / len(said) if said else 0.0


def position_blind() -> Oracle:
    """A fixed preference among captions, whatever the image shows."""
    return Oracle(
        "oracle:blind", "oracle:blind/1", "caption only", True, lambda image, text: _hashed(text)
    )


def detector(items: Sequence[Item], *, epsilon: float = 0.0, seed: int = 0) -> Oracle:
    """1 for the original caption of an image, 0 for any edit of it: knows edits, not images.

    Args:
        items: The benchmark; by convention the first caption of an item is its original.
        epsilon: Size of the noise that breaks the ties among edits.
        seed: Of that noise.
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
    """The caption-only scorer that has seen the answers: how often each caption is true.

    A benchmark on which it beats chance can be solved in part without images. Equal shares are
    told apart by a fixed hash, so that chance reads as 50, not as ties. Captions it has not seen
    get the mean of those it has.
    """
    told: defaultdict[str, list[float]] = defaultdict(list)
    for item in items:
        for caption, share in zip(item.captions, _shares(item), strict=True):
            for text in prompts_of(caption):
                told[text].append(share)
    share_of = {text: float(np.mean(shares)) for text, shares in told.items()}
    usual = float(np.mean(list(share_of.values()))) if share_of else 0.0

    def judge(image: ImageSource, text: str) -> float:
        return share_of.get(text, usual) + 1e-9 * _hashed(text)

    identity = blake2b(repr(sorted(share_of.items())).encode(), digest_size=8).hexdigest()
    return Oracle(
        "oracle:best-blind", f"oracle:best-blind/1/{identity}", "caption only", True, judge
    )


def scene_of(image: ImageSource) -> Scene:
    """The scene behind an image of the world."""
    if isinstance(image, SceneImage):
        return image.scene
    raise UnbagError(
        f"picture {image.name!r} has no scene",
        expected="an image drawn from the built-in world: oracles read the scene, not the pixels",
        hint="run oracles on the world benchmarks only",
    )


def _shares(item: Item) -> FloatArray:
    """[C]: the share of the item's images each caption is true of, or its mean rating."""
    if isinstance(item.truth, Sparse):
        images, captions = item.truth.shape
        count_C = np.bincount(item.truth.column_T, minlength=captions).astype(np.float64)
        return count_C / images
    share_C: FloatArray = np.asarray(item.truth, dtype=np.float64).mean(axis=0)
    return share_C


def _hashed(text: str) -> float:
    """A number in [0, 1) that is the same on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
