"""A model and material come in; whether its text tower sees the order of words goes out."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.benchmarks.order_free import TEXT
from unbag.captions.pipelines import HOW_TO
from unbag.captions.shuffles import BY_TAG, Tagger
from unbag.engine.progress import Progress
from unbag.probes.chosen import choose_gallery, choose_rows, is_swap, told_part
from unbag.probes.finding import Finding, Options, Quantity
from unbag.probes.material import Gallery, Material, Row
from unbag.probes.order_pairs import (
    encode_shuffled,
    of_gallery,
    of_rows,
    other_captions,
    shuffled_captions,
    shuffled_pictures,
    swapped_captions,
)
from unbag.probes.order_search import (
    recalls,
    retentions,
    search,
    search_captions,
    search_pictures,
)
from unbag.probes.order_shuffles import Shuffled, shuffle_captions, tagger_for
from unbag.probes.order_verdict import PRECISION, SWAPS, plots, say
from unbag.probes.probe import Probe, Subject
from unbag.probes.space import Space

NAME = "order"
MOST_PICTURES = 160
"""Of the gallery whose captions are shuffled, unless all is asked for."""
MOST_SHUFFLED_PICTURES = 80
"""Of the gallery whose pictures are shuffled: each must be encoded anew."""
SEEDS = 3
ABOUT = """\
R@1 of retrieval with the words of all captions, or the parts of all pictures, in another order, and
its retention: R@1 shuffled over R@1 as it is (methods.md 3.4; Yuksekgonul et al. 2023). Order
precision: the share of captions that their picture prefers to the same words in another order; a
tie is no preference. Similarity: the mean cosine of a caption to the same words in another order,
from the text tower alone; 1 is blind to order. "Swaps" are negatives of the same words that make
another sentence, false of the picture; the other shuffles mostly make nonsense, which a model of
language can tell without any picture, so the verdict is about swaps where there are any. Limits: a
shuffle that happens to say the same is left out on the world, where that is known, and nowhere
else; retention says little where R@1 is low to begin with."""


def order(
    space: Space, material: Material, options: Options, *, tagger: Tagger | None = None
) -> Finding:
    """Retrieval without order, order precision and similarity in any space of vectors."""
    gallery = material.gallery and choose_gallery(material.gallery, _most(MOST_PICTURES, options))
    asked = of_rows(material.rows, _most(MOST_PICTURES, options))
    if gallery is not None:
        asked = of_gallery(gallery)
    if not asked:
        return Finding(NAME, skipped=f"{material.about}: no captions with their pictures")
    seeds = range(options.seed, options.seed + (SEEDS if options.is_full else 1))
    texts = [one.caption for one in asked] if gallery is None else gallery.captions
    drawn = shuffle_captions(texts, seeds=seeds, tagger=tagger)
    swaps = choose_rows(list(filter(is_swap, material.rows)), options)
    quantities = swapped_captions(space, swaps, options) if swaps else []
    asked_AD = space.pictures([one.picture for one in asked])
    for name in dict.fromkeys(one.name for one in drawn):
        every = [one for one in drawn if one.name == name]
        quantities += shuffled_captions(
            space, asked_AD, asked, every, options, is_world=material.is_world
        )
    quantities += other_captions(space, asked, options)
    if gallery is not None and _can_search(gallery):
        quantities += _text_search(space, gallery, drawn, options)
        quantities += _picture_search(space, gallery, seeds, options)
    # Whatever caption has another order has one when all of its words move.
    headline = PRECISION + (SWAPS if swaps else "all_words")
    notes = _notes(gallery, drawn, tagger, has_swaps=bool(swaps)) + _parts(gallery, material, swaps)
    return Finding(NAME, tuple(quantities), headline, plots(quantities), notes)


def _most(most: int, options: Options) -> int | None:
    return None if options.is_full else most


def _can_search(gallery: Gallery) -> bool:
    return len(gallery.pictures) > 1 and len(gallery.captions) > 1


def _text_search(
    space: Space, gallery: Gallery, drawn: Sequence[Shuffled], options: Options
) -> list[Quantity]:
    picture_PD = space.pictures(gallery.pictures)
    original = search(picture_PD, space.captions(gallery.captions), gallery)
    found = recalls(original, gallery, options)
    for one in search_captions(space, picture_PD, gallery, drawn):
        found += recalls(one, gallery, options) + retentions(one, original, gallery, options)
    return found


def _picture_search(
    space: Space, gallery: Gallery, seeds: Sequence[int], options: Options
) -> list[Quantity]:
    """The original again, since the gallery may be a smaller one."""
    gallery = choose_gallery(gallery, _most(MOST_SHUFFLED_PICTURES, options))
    picture_PD, caption_CD = space.pictures(gallery.pictures), space.captions(gallery.captions)
    shuffled_SPD = encode_shuffled(space, gallery.pictures, seeds)
    original = search(picture_PD, caption_CD, gallery)
    found = recalls(original, gallery, options, beside=f" ({len(gallery.pictures)} pictures)")
    for one in search_pictures(shuffled_SPD, caption_CD, gallery):
        found += recalls(one, gallery, options) + retentions(one, original, gallery, options)
    return found + shuffled_pictures(picture_PD, shuffled_SPD, options)


def _notes(
    gallery: Gallery | None, drawn: Sequence[Shuffled], tagger: Tagger | None, *, has_swaps: bool
) -> tuple[str, ...]:
    notes = []
    if tagger is None:
        without = " and ".join(name for name in TEXT if name in BY_TAG)
        notes.append(f"No tagger, so {without} are not asked: {HOW_TO}.")
    else:
        notes.append(f"Parts of speech: {tagger.name}.")
    same = {
        name: sum(one.captions.count(None) for one in drawn if one.name == name)
        for name in dict.fromkeys(one.name for one in drawn)
    }
    counts = ", ".join(f"{name} {count}" for name, count in same.items() if count)
    if counts:
        notes.append(f"Captions without another order are left out: {counts}.")
    if gallery is None or not _can_search(gallery):
        notes.append("Retrieval is not asked: it needs two pictures and two captions.")
    if not has_swaps:
        notes.append(
            "No negative has the words of its caption, so all other orders are shuffles, mostly "
            "into nonsense: these can be told by language alone."
        )
    return tuple(notes)


def _parts(gallery: Gallery | None, material: Material, swaps: Sequence[Row]) -> tuple[str, ...]:
    """What was left out to be quick."""
    every = sum(map(is_swap, material.rows))
    notes = told_part(len(swaps), every, "captions with swaps")
    if gallery is None or material.gallery is None:
        return notes
    whole = len(material.gallery.pictures)
    return notes + told_part(len(gallery.pictures), whole, "pictures of the gallery")


def _ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    if subject.space is None:
        return Finding(NAME, skipped=f"{subject.name} has no vectors of captions")
    return order(subject.space, material, options, tagger=tagger_for(material))


ORDER = Probe(NAME, "Does the text tower see order?", ABOUT, _ask, say)
