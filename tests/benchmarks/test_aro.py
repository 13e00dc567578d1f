"""ARO: macro averages with what they leave out, and the four shuffles of word order."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.benchmarks.aro import (
    ARO_ATTRIBUTION,
    ARO_ORDER_COCO,
    ARO_RELATION,
    ATTRIBUTION_FILE,
    COCO_FILE,
    EXCLUDED_RELATIONS,
    RELATION_FILE,
    load_attribution,
    load_coco,
    load_relation,
)
from unbag.edits.parsed import ADJECTIVE_TAGS, NOUN_TAGS
from unbag.edits.shuffles import (
    SHUFFLES,
    all_but_nouns_and_adjectives,
    all_words,
    normalised,
    nouns_and_adjectives,
    shuffle,
    spaced,
    trigrams,
    within_trigrams,
    words,
)
from unbag.types import Estimate, FloatArray, Item

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
BOX = {"bbox_x": 5, "bbox_y": 6.0, "bbox_w": 7, "bbox_h": 8}


def row(**more: object) -> dict[str, object]:
    return {"image_path": "1.jpg", "true_caption": "a", "false_caption": "b", **BOX, **more}


def write(root: Path, name: str, rows: list[dict[str, object]]) -> None:
    (root / name).write_text(json.dumps(rows))


def test_relations_average_as_in_the_example_and_leave_out_the_list(
    tmp_path: Path, numbers: Numbers
) -> None:
    # methods.md 3.3: on 1110, near 00, under 1; near is on the list of exclusions.
    outcomes = {"on": "1110", "near": "00", "under": "1"}
    rows = [
        row(relation_name=relation, true_caption=right)
        for relation, each in outcomes.items()
        for right in each
    ]
    write(tmp_path, RELATION_FILE, rows)

    def score(item: Item) -> FloatArray:
        return np.array([[float(str(item.captions[0])), 0.5]])

    results = numbers(ARO_RELATION, load_relation(tmp_path), score)
    value = {rule: metrics["accuracy"].value for rule, metrics in results.items()}
    assert value == pytest.approx(
        {
            "macro(relation, without 157)": (3 / 4 + 1) / 2,
            "macro(relation)": 0.583333,
            "micro": 0.571429,
        },
        abs=1e-6,
    )


def test_pairs_of_fewer_than_25_cases_are_left_out(tmp_path: Path, numbers: Numbers) -> None:
    rows = [row(attributes=["red", "wet"])] * 25 + [row(attributes=["wet", "red"])] * 24
    write(tmp_path, ATTRIBUTION_FILE, rows)

    def score(item: Item) -> FloatArray:
        return np.array([[float(item.tags["pair"] == "red_wet"), 0.5]])

    results = numbers(ARO_ATTRIBUTION, load_attribution(tmp_path), score)
    assert results["macro(pair, n>=25)"]["accuracy"].value == 1
    assert results["macro(pair)"]["accuracy"].value == pytest.approx(1 / 2)
    assert results["micro"]["accuracy"].value == pytest.approx(25 / 49)


def test_the_list_of_exclusions_is_whole() -> None:
    assert len(EXCLUDED_RELATIONS) == 157
    assert {"near", "next to", "on the other side of", "around"} <= EXCLUDED_RELATIONS
    assert not {"on", "in", "to the left of", "under", "wearing"} & EXCLUDED_RELATIONS
    assert all(name == " ".join(name.split()) for name in EXCLUDED_RELATIONS)


TAGS = {"cat": "NN", "dog": "NN", "mat": "NN", "red": "JJ", "wet": "JJ", "on": "IN"}
TOKENS = st.lists(st.sampled_from("abcdefgh"), max_size=12)
TAGGED = st.lists(st.tuples(st.text("xyz", min_size=1), st.sampled_from(["NN", "JJ", "IN", "."])))
SEEDS = st.integers(0, 1000)


class Known:
    """A tagger of a handful of words."""

    name = "known words 1"

    def __call__(self, captions: Sequence[str]) -> list[list[tuple[str, str]]]:
        return [
            [(word, TAGS.get(word.lower(), "DT")) for word in words(caption)]
            for caption in captions
        ]


tagger = Known()
load_tagged = load_coco.with_tagger(tagger)


class Fixed(np.random.Generator):
    """Gives the permutation of the example in methods.md 5.1."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def permutation(self, x: object, axis: int = 0) -> object:  # type: ignore[override]
        return np.array([2, 0, 1])


def test_blocks_of_three_change_places_as_in_the_example() -> None:
    assert trigrams(list("01234567"), Fixed()) == list("67012345")


@given(TOKENS, SEEDS)
def test_trigram_shuffles_keep_words_and_blocks(tokens: list[str], seed: int) -> None:
    blocks = [tuple(tokens[i : i + 3]) for i in range(0, len(tokens), 3)]
    within = within_trigrams(tokens, np.random.default_rng(seed))
    assert [sorted(within[i : i + 3]) for i in range(0, len(tokens), 3)] == list(
        map(sorted, blocks)
    )
    assert sorted(trigrams(tokens, np.random.default_rng(seed))) == sorted(tokens)


@given(TAGGED, SEEDS)
def test_shuffles_by_tag_keep_their_slots(tagged: list[tuple[str, str]], seed: int) -> None:
    tokens = [token for token, _ in tagged]
    unmoved = all_but_nouns_and_adjectives(tagged, np.random.default_rng(seed))
    moved = nouns_and_adjectives(tagged, np.random.default_rng(seed))
    assert sorted(unmoved) == sorted(moved) == sorted(tokens)
    for i, (token, tag) in enumerate(tagged):
        assert (unmoved if tag in NOUN_TAGS | ADJECTIVE_TAGS else moved)[i] == token
    for tags in (NOUN_TAGS, ADJECTIVE_TAGS):
        slots = [i for i, (_, tag) in enumerate(tagged) if tag in tags]
        assert sorted(moved[i] for i in slots) == sorted(tokens[i] for i in slots)


def test_captions_are_normalised_as_the_official_code_does() -> None:
    assert normalised('  A "red"\n cat; (wet).  ') == "a red cat wet"
    assert normalised("a-b, c's ") == "a-b, c's"
    assert normalised(" ".join(map(str, range(40)))).split() == [str(i) for i in range(30)]


def test_words_split_off_punctuation_and_clitics() -> None:
    assert words("The man's hat, isn't red.") == [
        *("The", "man", "'s", "hat", ",", "is", "n't", "red", "."),
    ]
    assert words("a T-shirt; 3/4") == ["a", "T-shirt", ";", "3/4"]


@pytest.mark.parametrize(
    ("caption", "name"),
    [
        ("cat", "trigrams"),
        ("a red cat", "trigrams"),
        ("a a", "all_words"),
        ("cat.", "within_trigrams"),
        ("a a a a", "within_trigrams"),
        ("a red cat", "nouns_and_adjectives"),
        ("a red cat", "all_but_nouns_and_adjectives"),
    ],
)
def test_a_shuffle_that_cannot_change_the_words_is_none(caption: str, name: str) -> None:
    (tagged,) = tagger([caption])
    assert shuffle(caption, name, rng=np.random.default_rng(0), tagged=tagged) is None


@given(TOKENS, SEEDS)
def test_all_words_change_places(tokens: list[str], seed: int) -> None:
    assert sorted(all_words(tokens, np.random.default_rng(seed))) == sorted(tokens)


def test_the_form_of_a_caption_is_the_callers() -> None:
    unmoved = shuffle("A  Red cat.", "all_words", rng=np.random.default_rng(1), form=spaced)
    assert unmoved is not None
    assert sorted(unmoved.split()) == [".", "A", "Red", "cat"]
    assert shuffle("A a", "all_words", rng=np.random.default_rng(0)) is None
    assert shuffle("A a", "all_words", rng=np.random.default_rng(0), form=spaced) == "a A"


def test_moving_a_full_stop_or_splitting_a_clitic_is_no_new_order() -> None:
    for seed in range(30):
        results = shuffle("cat's.", "within_trigrams", rng=np.random.default_rng(seed))
        assert results == "'s cat"


def test_without_a_tagger_there_is_no_shuffle_by_part_of_speech() -> None:
    rng = np.random.default_rng(0)
    assert shuffle("a cat on a dog", "nouns_and_adjectives", rng=rng) is None
    (tagged,) = tagger(["a cat on the dog"])
    results = shuffle("a cat on the dog", "nouns_and_adjectives", rng=rng, tagged=tagged)
    assert results == "a dog on the cat"


def write_order(root: Path, rows: object) -> Path:
    (root / COCO_FILE).write_text(json.dumps(rows))
    return root


def record(*captions: str, **more: object) -> dict[str, object]:
    return {"image": "val2014/1.jpg", "caption": list(captions), **more}


def test_five_options_with_a_tagger_and_the_same_ones_again(tmp_path: Path) -> None:
    root = write_order(tmp_path, [record("A red cat on the wet mat.", "a cat")])
    items = load_tagged(root)
    assert items[0].kinds == ("original", *SHUFFLES)
    assert items[0].captions[0] == "a red cat on the wet mat"
    assert len({tuple(sorted(str(c).split())) for c in items[0].captions}) == 1
    again = load_tagged(root)
    assert [item.captions for item in again] == [item.captions for item in items]
    other = replace(load_tagged, seed=1)(root)
    assert [item.captions for item in other] != [item.captions for item in items]


def test_no_tagger_is_said_and_leaves_the_trigrams(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"not asked; .*install the extra unbag\[edits\]"):
        (item,) = load_coco(write_order(tmp_path, [record("a red cat on the wet mat")]))
    assert item.kinds == ("original", "within_trigrams", "trigrams")


def test_captions_are_tagged_once_and_in_order(tmp_path: Path) -> None:
    calls: list[Sequence[str]] = []

    class Watched(Known):
        def __call__(self, captions: Sequence[str]) -> list[list[tuple[str, str]]]:
            calls.append(captions)
            return super().__call__(captions)

    own_shuffles = dict.fromkeys(SHUFFLES, "b a")
    root = write_order(
        tmp_path, [record("a  cat on the dog"), record("the mat on a cat", "a red dog")]
    )
    items = load_coco.with_tagger(Watched())(root)
    assert calls == [["a cat on the dog", "the mat on a cat", "a red dog"]]
    assert [item.captions[item.kinds.index(SHUFFLES[0])] for item in items[:2]] == [
        *("a dog on the cat", "the cat on a mat"),
    ]
    load_coco.with_tagger(Watched())(
        write_order(tmp_path, [record("a b", shuffles=[own_shuffles])])
    )
    assert len(calls) == 1


def test_shuffles_of_the_file_are_taken_and_repeats_dropped(tmp_path: Path) -> None:
    own_shuffles = dict(zip(SHUFFLES, ("B a.", "b a", "A b!", "a  B b"), strict=True))
    (item,) = load_coco(write_order(tmp_path, [record("a b", shuffles=[own_shuffles])]))
    assert item.captions == ("a b", "b a", "a b b")
    assert item.kinds == ("original", SHUFFLES[0], SHUFFLES[3])


def test_ties_are_right_in_the_official_code_and_wrong_in_ours(
    tmp_path: Path, numbers: Callable[..., Mapping[str, Mapping[str, Estimate]]]
) -> None:
    # methods.md 3.3: three rows of five scores.
    own_shuffles = [{kind: f"{kind} {i}" for kind in SHUFFLES} for i in range(3)]
    items = load_coco(write_order(tmp_path, [record("a", "b", "c", shuffles=own_shuffles)]))
    rows = [[0.5, 0.4, 0.45, 0.5, 0.3], [0.4, 0.5, 0.3, 0.2, 0.1], [0.6, 0.5, 0.4, 0.3, 0.2]]
    score = {item.id: np.array([row]) for item, row in zip(items, rows, strict=True)}
    for ties, expected in ((ARO_ORDER_COCO.official_ties, 2 / 3), ("wrong", 1 / 3)):
        results = numbers(ARO_ORDER_COCO, items, lambda item: score[item.id], ties=ties)
        assert results["micro"]["accuracy"].value == pytest.approx(expected)


def test_the_official_file_has_its_count(official: Path) -> None:
    with pytest.warns(UserWarning, match="no tagger"):
        items = load_coco(official / "karpathy")
    assert len(items) == 25010
    assert len({item.images[0].name for item in items}) == 5000
    assert Counter(len(item.captions) for item in items) == {3: 25010}
