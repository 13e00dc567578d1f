"""Retrieval, and its order-free versions: recall under shuffles, and what is retained."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unbag as ub
from unbag.benchmarks.retrieval import (
    COCO_ORDER_FREE,
    COCO_RETRIEVAL,
    FLICKR30K_RETRIEVAL,
    SHUFFLES,
    order_free,
)
from unbag.benchmarks.taggers import with_tagger
from unbag.data.images import GRIDS
from unbag.edits.shuffles import BY_TAG, words
from unbag.errors import UnbagError
from unbag.evaluation.plan import make_plan
from unbag.metrics.aggregate import measure
from unbag.registry import find, names
from unbag.types import Benchmark, Case, Ensemble, Estimate, EvalProtocol, Item, Scores, Sparse

UNTAGGED = tuple(name for name in SHUFFLES if name not in BY_TAG)


class Tagger:
    name = "every word a noun 1"

    def __call__(self, captions: Sequence[str]) -> list[list[tuple[str, str]]]:
        return [[(word, "NN") for word in words(caption)] for caption in captions]


def write(root: Path, captions: Sequence[Sequence[str]]) -> Path:
    rows = [
        {"image": f"val2014/{i}.jpg", "caption": captions_of_image}
        for i, captions_of_image in enumerate(captions)
    ]
    (root / "coco_karpathy_test.json").write_text(json.dumps(rows))
    return root


def load(root: Path, benchmark: Benchmark) -> list[Item]:
    captions = [["A cat on the red mat.", "the dog"], ["cat", "two birds above a grey sea"]]
    return list(benchmark.load(write(root, captions)))


@pytest.fixture
def tagged() -> Benchmark:
    return with_tagger(COCO_ORDER_FREE, Tagger())


@pytest.mark.filterwarnings("ignore:captions that have no other order")
def test_every_shuffle_of_every_seed_beside_the_original(tmp_path: Path, tagged: Benchmark) -> None:
    items = load(tmp_path, tagged)
    assert items[0].tags == {"shuffle": "none"}
    assert [item.tags["shuffle"] for item in items[1:]] == [n for n in SHUFFLES for _ in range(3)]
    assert len({item.id for item in items}) == 25
    assert {item.group for item in items} == {"coco_karpathy_test"}
    assert len({id(item.truth) for item in items}) == 1
    (original,) = COCO_RETRIEVAL.load(tmp_path)
    assert items[0].captions == original.captions
    for item in items[1:]:
        is_text = item.tags["shuffle"] not in GRIDS
        assert (item.images is items[0].images) == is_text
        assert (item.captions is items[0].captions) != is_text


@pytest.mark.filterwarnings("ignore:captions that have no other order")
def test_captions_keep_their_words_and_differ_from_seed_to_seed(
    tmp_path: Path, tagged: Benchmark
) -> None:
    items = load(tmp_path, tagged)
    by_name = {name: [i for i in items if i.tags["shuffle"] == name] for name in SHUFFLES}
    for name in set(SHUFFLES) - set(GRIDS):
        for item in by_name[name]:
            for old, new in zip(items[0].captions, item.captions, strict=True):
                assert sorted(words(str(old))) == sorted(words(str(new)))
    assert len({item.captions for item in by_name["all_words"]}) == 3
    assert [item.captions for item in load(tmp_path, tagged)] == [i.captions for i in items]


def test_captions_without_another_order_are_kept_and_counted(tmp_path: Path) -> None:
    captions_of_image = order_free(COCO_RETRIEVAL, shuffles=("trigrams", "all_words"))
    message = "stay as they are: trigrams 6, all_words 3 of 12 draws"
    with pytest.warns(UserWarning, match=message):
        items = load(tmp_path, captions_of_image)
    assert items[1].kinds == ("trigrams", "none", "none", "trigrams")
    assert items[1].captions[2] == "cat"
    assert items[-1].kinds == ("all_words", "all_words", "none", "all_words")


@pytest.mark.filterwarnings("ignore:captions that have no other order")
def test_without_a_tagger_two_shuffles_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"no tagger, .* not asked; .*install the extra"):
        items = load(tmp_path, COCO_ORDER_FREE)
    assert [item.tags["shuffle"] for item in items[1::3]] == list(UNTAGGED)
    assert with_tagger(COCO_ORDER_FREE, None) is COCO_ORDER_FREE


def scored(items: Sequence[Item], ranks: dict[str, Sequence[int]]) -> list[Case]:
    """Caption q scores highest with image ranks[shuffle][q]."""
    results = []
    for item in items:
        score = np.zeros(item.truth.shape)
        score[list(ranks[item.tags["shuffle"]]), range(item.truth.shape[1])] = 1.0
        results.append(Case(item, Scores(item.id, score)))
    return results


@pytest.mark.filterwarnings("ignore:no tagger", "ignore:captions that have no other order")
def test_recall_and_retention_of_each_shuffle_by_hand(tmp_path: Path) -> None:
    benchmark = order_free(COCO_RETRIEVAL, shuffles=("trigrams", "rows_4"))
    items = load(tmp_path, benchmark)
    # Captions 0, 1 belong to image 0 and 2, 3 to image 1. Kept: the last one is wrong.
    cases = scored(items, {"none": [0, 0, 1, 0], "trigrams": [0, 1, 1, 0], "rows_4": [1, 0, 0, 1]})
    results = measure(benchmark, cases, protocol=EvalProtocol(resamples=200), seed=0).overall
    assert list(results) == ["original", "trigrams", "rows_4"]
    assert results["original"]["text_to_image@1"].value == 3 / 4
    assert "retention" not in results["original"]
    assert results["trigrams"]["text_to_image@1"].value == 2 / 4
    assert results["trigrams"]["retention"].value == pytest.approx(2 / 3)
    assert results["rows_4"]["retention"].value == pytest.approx(2 / 3)
    # Kept: image 0 scores 1 for captions 0, 1 and 3, so its own tie with a false one: a miss.
    # Image 1 finds caption 2. With trigrams both tie, with rows_4 both too.
    assert results["original"]["image_to_text@1"].value == 1 / 2
    assert results["trigrams"]["image_to_text_retention"].value == 0
    assert results["trigrams"]["image_to_text_retention"].n == 6
    assert results["trigrams"]["retention"].n == 12
    assert results["trigrams"]["retention"].interval == "clustered bootstrap"
    assert results["trigrams"]["retention"].chance is None


def test_seeds_are_averaged(tmp_path: Path) -> None:
    benchmark = order_free(COCO_RETRIEVAL, shuffles=("rows_4",), seeds=(3, 4))
    items = load(tmp_path, benchmark)
    cases = scored(items, {"none": [0, 0, 1, 1], "rows_4": [0, 0, 1, 1]})
    last = cases[-1]
    assert last.item.id == "coco_karpathy_test/rows_4/4"
    wrong = np.zeros((2, 4))
    wrong[[0, 1, 0, 0], range(4)] = 1.0
    cases[-1] = Case(last.item, Scores(last.item.id, wrong))
    results = measure(benchmark, cases, protocol=EvalProtocol(resamples=200), seed=0).overall
    assert results["rows_4"]["text_to_image@1"].value == (4 + 1) / 8
    assert results["rows_4"]["retention"].value == 5 / 8


def test_only_new_inputs_are_embedded(tmp_path: Path, tagged: Benchmark) -> None:
    with pytest.warns(UserWarning, match="no other order"):
        items = load(tmp_path, tagged)
    plan = make_plan({"x": items})
    assert len(plan.images) == 2 + 2 * len(GRIDS) * 3
    assert len(plan.captions) == len({c for item in items for c in item.captions})


def test_it_reads_the_folder_and_files_of_the_retrieval_benchmark() -> None:
    assert COCO_ORDER_FREE.folder == "coco_retrieval"
    assert COCO_ORDER_FREE.files == COCO_RETRIEVAL.files
    assert COCO_ORDER_FREE.published == ()
    named = with_tagger(COCO_ORDER_FREE, Tagger())
    assert named.about.endswith("Parts of speech: every word a noun 1.")


def test_any_retrieval_benchmark_by_name() -> None:
    results = ub.load_benchmark("order_free:world-retrieval")
    assert results.name == "order_free:world-retrieval"
    assert (results.files, results.folder) == ((), "")
    again = ub.load_benchmark("order_free:unbag.world.benchmarks:RETRIEVAL")
    assert again.name == results.name
    assert {"coco_order_free", "flickr30k_order_free"} <= set(names("benchmark"))
    assert find("benchmark", "coco_order_free") is COCO_ORDER_FREE


def test_on_the_world_words_are_enough_for_the_tiny_model() -> None:
    benchmark = order_free(
        ub.load_benchmark("world-retrieval"), shuffles=("all_words", "patches_9"), seeds=(0,)
    )
    items = benchmark.load(None)
    assert [item.id for item in items] == [
        *("retrieval/kept/none", "retrieval/kept/all_words/0", "retrieval/kept/patches_9/0"),
    ]
    assert all(isinstance(item.truth, Sparse) for item in items)
    scorer = ub.load_scorer("tiny:base")
    result = ub.evaluate(scorer, benchmark, protocol=EvalProtocol(resamples=200))[0]
    assert result.aggregate == "original"
    assert result.overall["text_to_image@1"].value == 1.0
    words_left = result.by_tag["shuffle=all_words"]["retention"]
    patches_left = result.by_tag["shuffle=patches_9"]["retention"]
    assert words_left.value > 0.97
    assert 0.85 < patches_left.value < 0.99


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ub.load_benchmark("order_free:world-swap"), "'world-swap' is not about retrieval"),
        (lambda: ub.load_benchmark("order_free:nothing"), "unknown benchmark 'nothing'"),
        (lambda: order_free(COCO_RETRIEVAL, shuffles=("rows",)), r"shuffles \['rows'\]"),
        (lambda: order_free(COCO_RETRIEVAL, seeds=()), r"seeds \[\]"),
    ],
)
def test_what_cannot_be_made_is_named(make: object, message: str) -> None:
    with pytest.raises(UnbagError, match=message):
        make()  # type: ignore[operator]


def test_prompts_have_no_one_order() -> None:
    ensemble = (Ensemble("x", ("a", "b")),)
    images = ub.load_benchmark("world-retrieval").load(None)[0].images[:1]
    item = Item("g", images, ensemble, np.array([[True]]))
    benchmark = order_free(replace(COCO_RETRIEVAL, load=lambda root: [item]), shuffles=("rows_4",))
    with pytest.raises(UnbagError, match="gallery 'g' has captions made of several prompts"):
        benchmark.load(None)


Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
PLACES = {"coco_retrieval": "val2014", "flickr30k_retrieval": "flickr30k-images"}
BOTH = pytest.mark.parametrize("benchmark", [COCO_RETRIEVAL, FLICKR30K_RETRIEVAL])


def test_the_real_file_of_coco(official: Path) -> None:
    (item,) = COCO_RETRIEVAL.load(official / "karpathy")
    assert item.truth.shape == (5000, 25_010)
