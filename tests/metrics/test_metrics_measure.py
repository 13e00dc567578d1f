from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.metrics import Choice, Pairs, Recall, Retention, measure
from unbag.types import MICRO, Aggregate, Benchmark, Case, EvalProtocol

Make = Callable[..., Case]
BENCH = Benchmark(
    name="toy",
    about="Which of two captions?",
    load=lambda root: [],
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(Aggregate(by=("kind",)), MICRO),
)


@pytest.fixture
def cases(case: Make) -> list[Case]:
    rows = [("swap", 1), ("swap", 0), ("swap", 0), ("replace", 1)]
    return [
        case([0.5 + right, 1.0], [1, 0], name=f"i{i}", tags={"kind": kind})
        for i, (kind, right) in enumerate(rows)
    ]


def test_measure_gives_every_rule_and_every_tag(cases: list[Case], protocol: EvalProtocol) -> None:
    found = measure(BENCH, cases, protocol=protocol, seed=0)
    assert found.overall["macro(kind)"]["accuracy"].value == pytest.approx((1 / 3 + 1) / 2)
    assert found.overall["micro"]["accuracy"].value == 0.5
    assert found.by_tag["kind=swap"]["accuracy"].value == pytest.approx(1 / 3)
    assert found.outcomes["accuracy"].value_U.tolist() == [1, 0, 0, 1]


def test_results(cases: list[Case], protocol: EvalProtocol) -> None:
    found = measure(BENCH, cases, protocol=protocol, seed=0)
    macro, micro = found.results("model", is_blind=True)
    assert (macro.aggregate, micro.aggregate) == ("macro(kind)", "micro")
    assert (micro.benchmark, micro.scorer, micro.headline) == ("toy", "model", "accuracy")
    assert micro.protocol is protocol
    assert micro.is_blind
    assert micro.overall["accuracy"].n == 4
    assert set(micro.by_tag) == {"kind=replace", "kind=swap"}


def test_the_order_of_cases_changes_nothing(cases: list[Case], protocol: EvalProtocol) -> None:
    one = measure(BENCH, cases, protocol=protocol, seed=0)
    other = measure(BENCH, cases[::-1], protocol=protocol, seed=0)
    assert one.overall == other.overall
    assert one.by_tag == other.by_tag


def test_the_protocol_decides_ties(case: Make) -> None:
    bench = replace(BENCH, aggregates=(MICRO,))
    tied = [case([0.5, 0.5], [1, 0], name="a"), case([0.7, 0.5], [1, 0], name="b")]
    for ties, expected in (("wrong", 0.5), ("half", 0.75), ("right", 1.0)):
        protocol = EvalProtocol(ties=ties, resamples=100)  # type: ignore[arg-type]
        found = measure(bench, tied, protocol=protocol, seed=0).overall["micro"]["accuracy"]
        assert (found.value, found.ties) == (expected, 1)


def test_a_rule_without_meaning_leaves_the_metric_out(case: Make, protocol: EvalProtocol) -> None:
    bench = replace(
        BENCH,
        metrics=(Pairs({"left/right": (0, 1), "on/under": (2, 3)}),),
        headline="pair",
        aggregates=(MICRO, Aggregate(by=("relation",))),
    )
    found = measure(bench, [case(np.eye(4), np.eye(4))], protocol=protocol, seed=0)
    assert "set" in found.overall["micro"]
    assert "set" not in found.overall["macro(relation)"]
    assert found.overall["macro(relation)"]["pair"].value == 1
    assert set(found.by_tag) == {"relation=left/right", "relation=on/under"}


def test_retention_stands_beside_the_recall_of_the_kept_order(
    case: Make, protocol: EvalProtocol
) -> None:
    kept = Aggregate(only=(("order", "kept"),))
    bench = replace(
        BENCH,
        metrics=(Recall((1,)), Retention()),
        headline="text_to_image@1",
        aggregates=(kept, Aggregate(only=(("order", "shuffled"),))),
    )
    cases = [
        case(np.eye(4), np.eye(4), name="k", group="g", tags={"order": "kept"}),
        case(np.eye(4)[[0, 1, 3, 2]], np.eye(4), name="s", group="g", tags={"order": "shuffled"}),
    ]
    found = measure(bench, cases, protocol=protocol, seed=0).overall
    assert found["micro[order=kept]"]["text_to_image@1"].value == 1.0
    assert found["micro[order=kept]"]["retention"].value == 0.5
    assert found["micro[order=kept]"]["retention"].chance is None
    assert found["micro[order=shuffled]"]["text_to_image@1"].value == 0.5
    assert "retention" not in found["micro[order=shuffled]"]


def test_no_items(protocol: EvalProtocol) -> None:
    with pytest.raises(UnbagError, match="benchmark 'toy' has no items") as error:
        measure(BENCH, [], protocol=protocol, seed=0)
    assert "any limit on the number of items" in str(error.value)


def test_ids_must_differ_and_match(cases: list[Case], protocol: EvalProtocol) -> None:
    with pytest.raises(UnbagError, match="1 item ids more than once, such as 'i0'"):
        measure(BENCH, [cases[0], cases[0]], protocol=protocol, seed=0)
    crossed = [Case(cases[0].item, cases[1].scores)]
    with pytest.raises(UnbagError, match="item 'i0' comes with the scores of item 'i1'"):
        measure(BENCH, crossed, protocol=protocol, seed=0)


def test_metrics_of_a_benchmark_must_make_sense(cases: list[Case], protocol: EvalProtocol) -> None:
    with pytest.raises(UnbagError, match="'toy' has the metric 'accuracy' twice"):
        measure(replace(BENCH, metrics=(Choice(), Choice())), cases, protocol=protocol, seed=0)
    with pytest.raises(UnbagError, match="gives its headline 'pair'"):
        measure(replace(BENCH, headline="pair"), cases, protocol=protocol, seed=0)
    rules = tuple(Aggregate(by=("kind",), without=frozenset({kind})) for kind in ("swap", "add"))
    with pytest.raises(UnbagError, match="has two averaging rules named"):
        measure(replace(BENCH, aggregates=rules), cases, protocol=protocol, seed=0)
    unfit = replace(BENCH, metrics=(Pairs(),), headline="pair", aggregates=(MICRO,))
    with pytest.raises(UnbagError, match="toy: individual: no unit to average under micro"):
        measure(unfit, cases, protocol=protocol, seed=0)


def test_invalid_scores_need_leave(case: Make, protocol: EvalProtocol) -> None:
    bench = replace(BENCH, aggregates=(MICRO,))
    damaged = [case([np.nan, 0.5], [1, 0], name="a"), case([0.7, 0.5], [1, 0], name="b")]
    with pytest.raises(UnbagError, match="toy: accuracy: 1 of 2 units"):
        measure(bench, damaged, protocol=protocol, seed=0)
    found = measure(bench, damaged, protocol=protocol, seed=0, allow_invalid=True)
    assert found.overall["micro"]["accuracy"].value == 1.0
    assert found.overall["micro"]["accuracy"].invalid == 1
