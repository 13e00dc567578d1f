"""Scores: the same by vectors and by queries, and every way a scorer can misbehave."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.api import make_scorer
from unbag.benchmarks.names import benchmark
from unbag.data import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.embedding import embed
from unbag.evaluation.loading import Job
from unbag.evaluation.measuring import choose_failures
from unbag.evaluation.plan import make_plan
from unbag.evaluation.run import run
from unbag.evaluation.scoring import (
    QueryScoring,
    score_by_vectors,
    unknown_words,
    unknown_words_message,
)
from unbag.evaluation.store import Key, ScoreStore
from unbag.metrics.retrieval import Recall
from unbag.models.loading import load_model
from unbag.models.tiny import load
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import (
    Benchmark,
    Caption,
    Case,
    Ensemble,
    ImageSource,
    Item,
    Query,
    Scores,
    Sparse,
)

from .stub import Odd


def by_vectors(encoder: Any, items: list[Item]) -> dict[str, Scores]:
    plan = make_plan({"toy": items})
    vectors = embed(
        encoder,
        plan,
        cache=None,
        batch_plans={},
        save_batch_plans=lambda: None,
        batch_size=8,
        progress=Silent(),
    )
    chunks = score_by_vectors(Cosine(encoder), items, plan.rows["toy"], vectors)
    return {scores.item: scores for chunk in chunks for scores in chunk}


def gallery(items: list[Item]) -> Item:
    images = tuple(item.images[0] for item in items[:6])
    captions = tuple(str(item.captions[0]) for item in items[:3])
    rows, columns = np.arange(6), np.arange(6) % 3
    return Item("gallery", images, captions, Sparse((6, 3), rows, columns))


def test_vectors_and_queries_agree(encoder: Any, items: list[Item]) -> None:
    known = by_vectors(encoder, items)
    asked = {s.item: s for s in QueryScoring(Cosine(encoder)).chunk(items)}
    for item in items:
        first, second = known[item.id].values, asked[item.id].values
        assert first is not None
        assert second is not None
        assert np.allclose(first, second, atol=1e-7)


def test_large_items_keep_ranks_not_the_matrix(encoder: Any, items: list[Item]) -> None:
    item = gallery(items)
    for scores in (
        by_vectors(encoder, [item])["gallery"],
        *QueryScoring(Cosine(encoder)).chunk([item]),
    ):
        assert scores.values is None
        assert scores.image_to_text is not None
        assert scores.text_to_image is not None
        assert scores.image_to_text.greater_Q.tolist() == [0] * 6
        assert scores.text_to_image.true_Q.tolist() == [2, 2, 2]


def test_equal_queries_are_asked_once(items: list[Item]) -> None:
    odd = Odd(lambda queries: [1.0] * len(queries))
    repeated = [
        Item(f"i{n}", items[0].images, ("a", "b"), np.array([[True, False]])) for n in range(9)
    ]
    QueryScoring(odd).chunk(repeated)
    assert odd.asked == [2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.1], r"too few numbers: shape \(1,\) for 2 queries"),
        ([0.1] * 3, r"too many numbers: shape \(3,\) for 2 queries"),
        (np.zeros((2, 1)), r"shape \(2, 1\) for 2 queries"),
        (["a", "b"], "list: "),
        ({"x": 1}, "dict: "),
        ([[1.0], [1.0, 2.0]], "list: "),
        ((x for x in (1.0, 2.0)), "generator: "),
        ([1j, 2j], "list: values of type complex128"),
    ],
)
def test_answers_that_are_no_numbers_or_too_few(
    items: list[Item], answer: Any, message: str
) -> None:
    with pytest.raises(UnbagError, match=f"scorer 'odd' returned .*{message}"):
        QueryScoring(Odd(answer)).chunk(items[:1])


def test_nan_passes_and_is_counted_later(items: list[Item]) -> None:
    (scores,) = QueryScoring(Odd([float("nan"), 1.0])).chunk(items[:1])
    assert scores.values is not None
    assert np.isnan(scores.values[0, 0])
    assert scores.values[0, 1] == 1.0


def test_a_damaged_image_costs_only_its_own_items(items: list[Item], tmp_path: Path) -> None:
    bad = tmp_path / "pictures" / "1.png"
    bad.write_bytes(b"junk")

    def looks(queries: Sequence[Query]) -> list[float]:
        return [float(np.asarray(query.image.open()).mean()) for query in queries]

    asking = QueryScoring(Odd(looks))
    scores = {s.item: s.values for s in asking.chunk(items[:6])}
    invalid = [name for name, values in scores.items() if values is None or np.isnan(values).any()]
    assert invalid == ["item1"]
    assert list(asking.damaged) == [str(bad)]


def test_a_scorer_with_a_bug_is_not_mistaken_for_damage(items: list[Item]) -> None:
    def broken(queries: Sequence[Query]) -> list[float]:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        QueryScoring(Odd(broken)).chunk(items[:2])


def test_too_large_a_gallery_for_a_pair_scorer(items: list[Item]) -> None:
    wide = Item(
        "wide",
        items[0].images * 1001,
        tuple(str(i) for i in range(1000)),
        Sparse((1001, 1000), np.array([0]), np.array([0])),
    )
    with pytest.raises(UnbagError, match="odd scores pairs one by one, and 'wide' has 1001 x 1000"):
        QueryScoring(Odd([])).chunk([wide])


def test_the_store_gives_back_what_it_was_given(
    encoder: Any, items: list[Item], tmp_path: Path
) -> None:
    key, path = Key("toy", "colours"), tmp_path / "scores.parquet"
    large = gallery(items)
    known = by_vectors(encoder, [*items, large])
    chat = Scores(
        "item0", np.array([[0.5, np.nan]]), answers=("A",), order_logprobs=((-1.0, -2.0),)
    )
    store = ScoreStore(path)
    store.add(key, [(item, known[item.id]) for item in [*items, large]])
    store.add(Key("toy", "chat"), [(items[0], chat)])
    store.save()
    again = ScoreStore(path)
    for item in items:
        assert np.array_equal(again.get(key)[item.id].values, known[item.id].values)  # type: ignore[arg-type]
    ranks, expected = again.get(key)["gallery"].text_to_image, known["gallery"].text_to_image
    assert ranks is not None
    assert expected is not None
    assert np.array_equal(ranks.top_score_QK, expected.top_score_QK)
    back = again.get(Key("toy", "chat"))["item0"]
    assert (back.answers, back.order_logprobs) == (("A",), ((-1.0, -2.0),))
    assert back.values is not None
    assert np.isnan(back.values[0, 1])


def test_the_store_is_an_open_table(items: list[Item], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    store = ScoreStore(tmp_path / "scores.parquet")
    store.add(Key("toy", "odd"), [(items[0], Scores("item0", np.array([[0.25, 0.75]])))])
    store.save()
    (row,) = pq.read_table(tmp_path / "scores.parquet").to_pylist()
    assert row["captions"] == list(items[0].captions)
    assert (row["true"], row["values"], row["shape"]) == ([0], [0.25, 0.75], [1, 2])
    assert row["tags"] == '{"colour": "red"}'


def test_a_damaged_store_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    path.write_bytes(b"PAR1 junk")
    with pytest.raises(UnbagError, match="cannot be read") as error:
        ScoreStore(path)
    assert "move the file away" in str(error.value)


def test_a_flipped_bit_of_a_score_is_told(items: list[Item], tmp_path: Path) -> None:
    """A file without checksums, as it was written before, is read as it is."""
    import pyarrow.parquet as pq

    path, values = tmp_path / "scores.parquet", np.array([[0.1234567, 0.7654321]])
    store = ScoreStore(path)
    store.add(Key("toy", "odd"), [(items[0], Scores("item0", values))])
    store.save()
    content = bytearray(path.read_bytes())
    pq.write_table(pq.read_table(path), path, compression="zstd")
    older = ScoreStore(path).get(Key("toy", "odd"))["item0"].values
    assert np.array_equal(older, values)  # type: ignore[arg-type]
    content[content.index(values.tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnbagError, match=r"scores\.parquet cannot be read: .* CRC") as caught:
        ScoreStore(path)
    assert caught.value.expected == "the scores of an earlier run, as they were written"
    assert "move the file away" in caught.value.hint


def test_captions_are_compared_with_each_other_where_a_benchmark_asks(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    """The cosines of the encoder's own vectors, kept in the folder and read back."""
    run(Job([Cosine(encoder)], [replace(toy, compares_captions=True)], tmp_path / "run"))
    saved = ScoreStore(tmp_path / "run" / "scores.parquet").get(Key("toy", "colours"))
    for item in toy.load(None):
        vectors = encoder.encode_texts([str(c) for c in item.captions]).double().numpy()
        caption_CC = saved[item.id].caption_CC
        assert caption_CC is not None
        np.testing.assert_allclose(caption_CC, vectors @ vectors.T, atol=1e-6)
    run(Job([Cosine(encoder)], [toy], tmp_path / "plain"))
    plain = ScoreStore(tmp_path / "plain" / "scores.parquet").get(Key("toy", "colours"))
    assert all(scores.caption_CC is None for scores in plain.values())


class Whole(Odd):
    """A scorer of whole items that gives each a number and its answer."""

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        self.asked.append(len(items))
        for item in items:
            item.images[0].open()
        scores_list = [
            Scores(i.id, np.ones(i.truth.shape), answers=("A",), unparsed=1) for i in items
        ]
        return self.answer(scores_list) if self.answer else scores_list


def test_a_scorer_of_whole_items_is_asked_for_items(items: list[Item]) -> None:
    scorer = Whole()
    results = QueryScoring(scorer).chunk(items)
    assert scorer.asked == [len(items)]
    assert [s.item for s in results] == [item.id for item in items]
    assert {(s.answers, s.unparsed) for s in results} == {(("A",), 1)}


def test_items_with_a_damaged_image_are_invalid_and_the_others_are_asked(
    items: list[Item], tmp_path: Path
) -> None:
    broken = FileImage(tmp_path / "broken.png")
    broken.path.write_bytes(b"no image")
    damaged = replace(items[1], images=(broken,))
    asking = QueryScoring(Whole())
    first, second = asking.chunk([items[0], damaged])
    assert first.values is not None
    assert first.values.tolist() == [[1.0, 1.0]]
    assert second.values is not None
    assert np.isnan(second.values).all()
    assert list(asking.damaged) == [broken.name]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda scores_list: scores_list[:-1], "returned nothing as number 30 of 29"),
        (
            lambda scores_list: scores_list[::-1],
            r"returned \('item29', \(1, 2\)\) as number 1 of 30",
        ),
        (lambda scores_list: [*scores_list, scores_list[0]], "as number 31 of 31"),
    ],
)
def test_scores_of_other_items_are_refused(items: list[Item], answer: Any, message: str) -> None:
    with pytest.raises(UnbagError, match=message):
        QueryScoring(Whole(answer)).chunk(items)


def test_the_first_are_named_and_the_others_counted() -> None:
    rest = "unknown words are all one token to it"
    assert unknown_words_message("tiny", ["dog"]) == f"tiny does not know: dog: {rest}"
    nine = [f"w{n}" for n in range(9)]
    listed = ", ".join(nine[:8])
    assert (
        unknown_words_message("tiny", nine)
        == f"tiny does not know: {listed} (and 1 more word): {rest}"
    )
    assert "(and 2 more words)" in unknown_words_message("tiny", [*nine, "x"])


def test_read_outs_say_what_their_encoder_or_their_words_do_not_know() -> None:
    model = load("base")
    for name in (None, "dcsm_fixed", "decoder"):
        scorer = make_scorer(model, name)
        assert unknown_words(scorer, ["a red ring", "a zebra"]) == ["zebra"], name
    assert unknown_words(make_scorer(load_model("caption:short")), ["a zebra"]) == []


def few(*, renamed: bool) -> Benchmark:
    """Two items of the world; renamed, with a word that is none of it."""
    whole = benchmark("world-swap")

    def items(root: Path | None) -> tuple[Item, ...]:
        results = tuple(whole.load(root))[:2]
        if not renamed:
            return results
        return tuple(
            replace(one, captions=tuple(f"{caption} zebra" for caption in one.captions))
            for one in results
        )

    return replace(whole, load=items)


def test_a_run_tells_it_once_and_never_of_the_world(tmp_path: Path) -> None:
    for renamed in (False, True):
        progress = Silent()
        job = Job([make_scorer(load("base"))], [few(renamed=renamed)], tmp_path / str(renamed))
        run(job, progress=progress)
        lines = [line for line in progress.said if "does not know" in line]
        expected = ["tiny:base does not know: zebra: unknown words are all one token to it"]
        assert lines == (expected if renamed else [])


def classes(items: list[Item], count: int) -> list[Item]:
    letters = ["r", "g", "b"]
    captions: tuple[Caption, ...] = tuple(
        Ensemble(f"class {i}", (letters[i % 3] * (1 + i // 3), f"{letters[i % 3]} {i}"))
        for i in range(count)
    )
    truth = np.eye(1, count, dtype=bool)
    return [Item(f"c{i}", item.images, captions, truth) for i, item in enumerate(items)]


def test_wide_items_get_the_same_scores_as_narrow_ones(
    encoder: Any, items: list[Item], tmp_path: Path, make: Any
) -> None:
    """Seventy classes go through a product of matrices, the first fifty of them cell by cell."""
    wide, narrow = classes(items, 70), classes(items, 50)
    results = []
    for name, subset in (("wide", wide), ("narrow", narrow)):
        benchmark = make(lambda root, subset=subset: subset, name=name)
        job = Job([Cosine(encoder)], [benchmark], tmp_path / name)
        run(job)
        import pyarrow.parquet as pq

        rows = pq.read_table(tmp_path / name / "scores.parquet")["values"].to_pylist()
        results.append(np.array(rows))
    assert results[0].shape == (30, 70)
    assert np.allclose(results[0][:, :50], results[1], atol=1e-6)


def test_equal_vectors_get_equal_scores_in_every_block() -> None:
    vectors = torch.nn.functional.normalize(torch.randn(131, 256), dim=-1)
    captions = torch.nn.functional.normalize(torch.randn(77, 256), dim=-1)
    vectors[130] = vectors[3]
    scorer = Cosine.__new__(Cosine)
    first = scorer.compare_all(vectors[:128], captions)
    last = scorer.compare_all(vectors[128:], captions)
    assert torch.equal(first[3], last[2])


class Matrix:
    """A scorer with matrices only; counts its calls and opens every image."""

    name, fingerprint, scoring, is_blind = "matrix", "1", "odd", False

    def __init__(self) -> None:
        self.images = 0

    def score(self, queries: Sequence[Query]) -> list[float]:
        raise AssertionError("the matrix form is there")

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        self.images += len(images)
        rows = [np.asarray(p.open()).mean(axis=(0, 1)) for p in images]
        columns = [[str(c).count(letter) for letter in "rgb"] for c in captions]
        return torch.tensor(np.array(rows) @ np.array(columns, dtype=float).T)


def test_a_matrix_scorer_is_asked_once_and_survives_a_damaged_image(
    items: list[Item], tmp_path: Path
) -> None:
    scorer = Matrix()
    QueryScoring(scorer).chunk([gallery(items)])
    assert scorer.images == 6
    (tmp_path / "pictures/4.png").write_bytes(b"junk")
    asking = QueryScoring(Matrix())
    (scores,) = asking.chunk([gallery(items)])
    assert list(asking.damaged) == [str(tmp_path / "pictures/4.png")]
    assert scores.image_to_text is not None
    assert scores.image_to_text.greater_Q.tolist() == [0, 0, 0, 0, -1, 0]


def test_failures_of_both_directions_of_retrieval(items: list[Item]) -> None:
    class Worst(Matrix):
        def score_matrix(
            self, images: Sequence[ImageSource], captions: Sequence[Caption]
        ) -> Tensor:
            return -super().score_matrix(images, captions)

    item = gallery(items)
    (scores,) = QueryScoring(Worst()).chunk([item])
    cases = {"gallery": Case(item, scores)}
    for outcomes in Recall(ks=(1,))(list(cases.values()), ties="wrong", tie_eps=0.0):
        failures = choose_failures("b", "s", outcomes, cases, only={})
        assert failures
        for failure in failures:
            shape = (len(failure.images), len(failure.captions))
            assert shape == ((2, 1) if "text_to_image" in failure.item else (1, 2))
            assert failure.truth[0][0]
            number = int(failure.item.rpartition(" ")[2])
            if shape == (1, 2):
                assert failure.captions[0] == item.captions[number % 3]


def test_scores_stay_arrays_through_the_store(items: list[Item], tmp_path: Path) -> None:
    from unbag.evaluation.store import Key, ScoreStore

    store = ScoreStore(tmp_path / "s.parquet")
    wide = classes(items, 70)[0]
    store.add(Key("b", "s"), [(wide, Scores("c0", np.arange(70.0)[None]))])
    store.save()
    again = ScoreStore(tmp_path / "s.parquet").get(Key("b", "s"))["c0"].values
    assert again is not None
    assert np.array_equal(again, np.arange(70.0)[None])


@pytest.mark.parametrize(
    "answer",
    [
        torch.tensor([0.5, 0.25], dtype=torch.bfloat16),
        torch.tensor([0.5, 0.25], requires_grad=True),
        np.array([0.5, 0.25], dtype=np.float16),
        (0.5, 0.25),
    ],
)
def test_numbers_of_any_kind(items: list[Item], answer: Any) -> None:
    (scores,) = QueryScoring(Odd(answer)).chunk(items[:1])
    assert scores.values is not None
    assert scores.values.tolist() == [[0.5, 0.25]]
