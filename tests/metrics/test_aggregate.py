from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.metrics import Choice, Pairs, Recall, Retention, by_tag, estimate, measure, wilson
from unbag.types import MICRO, Aggregate, Benchmark, Case, Estimate, EvalProtocol, Outcomes

Make = Callable[..., Outcomes]
NAN = float("nan")
RELATIONS = {"on": [1, 1, 1, 0], "near": [0, 0], "under": [1]}


@pytest.fixture
def relations(outcomes: Make) -> Outcomes:
    values = [v for result in RELATIONS.values() for v in result]
    tags = [{"relation": name} for name, result in RELATIONS.items() for _ in result]
    outcomes_: Outcomes = outcomes(values, tags=tags)
    return outcomes_


@pytest.fixture
def average(protocol: EvalProtocol) -> Callable[..., Estimate]:
    def run(result: Outcomes, aggregate: Aggregate = MICRO, **options: bool) -> Estimate:
        return estimate(result, aggregate, protocol=protocol, seed=0, benchmark="vg", **options)

    return run


Average = Callable[..., Estimate]


def test_relations_worked_example(relations: Outcomes, average: Average) -> None:
    micro = average(relations)
    assert micro.value == pytest.approx(0.571429, abs=1e-6)
    assert (micro.low, micro.high) == wilson(4, 7)[:2]
    assert (micro.n, micro.interval, micro.chance) == (7, "wilson", 0.5)
    macro = average(relations, Aggregate(by=("relation",)))
    assert macro.value == pytest.approx(0.583333, abs=1e-6)
    assert macro.interval == "stratified bootstrap, few clusters"
    # Only "on" varies, by 1/4 steps, and has a third of the weight.
    assert macro.low == pytest.approx((1 / 4 + 0 + 1) / 3)
    assert macro.high == pytest.approx((1 + 0 + 1) / 3)


def test_least_and_without(relations: Outcomes, average: Average) -> None:
    least = average(relations, Aggregate(by=("relation",), least=2))
    assert least.value == pytest.approx((3 / 4 + 0) / 2)
    assert least.n == 6
    without = average(relations, Aggregate(by=("relation",), without=frozenset({"near"})))
    assert without.value == pytest.approx((3 / 4 + 1) / 2)
    assert without.n == 5


def test_only(relations: Outcomes, average: Average) -> None:
    result = average(relations, Aggregate(only=(("relation", "on"),)))
    assert (result.value, result.n) == (0.75, 4)


SUGARCREPE = {
    ("replace", "object"): 90.9,
    ("replace", "attribute"): 80.0,
    ("replace", "relation"): 69.2,
    ("swap", "object"): 61.4,
    ("swap", "attribute"): 64.0,
    ("add", "object"): 77.2,
    ("add", "attribute"): 68.2,
}


def test_sugarcrepe_worked_example(outcomes: Make, average: Average) -> None:
    result = outcomes(
        [value / 100 for value in SUGARCREPE.values()],
        tags=[{"family": f, "type": f"{f} {t}"} for f, t in SUGARCREPE],
    )
    assert average(result, Aggregate(by=("type",))).value == pytest.approx(0.7299, abs=5e-5)
    assert average(result, Aggregate(by=("family", "type"))).value == pytest.approx(
        0.7181, abs=5e-5
    )
    for family, expected in (("replace", 0.8003), ("swap", 0.6270), ("add", 0.7270)):
        rule = Aggregate(by=("type",), only=(("family", family),))
        assert average(result, rule).value == pytest.approx(expected, abs=5e-5)


def test_nested_macro_with_equal_names_below(outcomes: Make, average: Average) -> None:
    """The same value of the inner tag in two families is two groups."""
    result = outcomes(
        [1, 0, 0],
        tags=[{"family": f, "kind": k} for f, k in (("a", "x"), ("a", "y"), ("b", "x"))],
    )
    assert average(result, Aggregate(by=("family", "kind"))).value == pytest.approx(0.25)


def test_clusters_are_resampled_together(outcomes: Make, average: Average) -> None:
    rng = np.random.default_rng(0)
    values = np.repeat(rng.integers(0, 2, 60), 5)
    clusters = [f"p{i // 5}" for i in range(300)]
    result = average(outcomes(values.tolist(), clusters=clusters))
    assert result.interval == "clustered bootstrap"
    alone = wilson(values.sum() / 5, 60)
    assert result.high - result.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_groups_that_share_images_are_no_more_certain_than_one(
    outcomes: Make, average: Average
) -> None:
    """Seven kinds that agree in each of 100 images say no more than the 100 images."""
    value_P = np.random.default_rng(0).integers(0, 2, 100)
    tags = [{"kind": str(i // 100)} for i in range(700)]
    images = [f"p{i % 100}" for i in range(700)]
    kinds = Aggregate(by=("kind",))
    result = average(outcomes(np.tile(value_P, 7).tolist(), clusters=images, tags=tags), kinds)
    assert result.interval == "clustered bootstrap, joint over groups"
    half = 1.96 * value_P.std() / 10
    assert result.high - result.low == pytest.approx(2 * half, rel=0.1)
    alone = average(outcomes(np.tile(value_P, 7).tolist(), tags=tags), kinds)
    assert alone.interval == "stratified bootstrap"
    assert alone.value == pytest.approx(result.value)
    assert alone.high - alone.low == pytest.approx(2 * half / np.sqrt(7), rel=0.1)


def test_one_shared_image_is_enough(outcomes: Make, average: Average) -> None:
    tags = [{"kind": "a" if i < 6 else "b"} for i in range(12)]
    clusters = [f"p{i}" for i in range(11)] + ["p0"]
    result = average(outcomes([1, 0] * 6, clusters=clusters, tags=tags), Aggregate(by=("kind",)))
    assert result.interval == "clustered bootstrap, joint over groups"
    backward = outcomes([0, 1] * 6, clusters=clusters[::-1], tags=tags[::-1])
    again = average(backward, Aggregate(by=("kind",)))
    assert (again.low, again.high) == pytest.approx((result.low, result.high))


@pytest.mark.parametrize(("clusters", "note"), [(4, ", few clusters"), (5, "")])
def test_a_group_of_few_clusters_is_said(
    outcomes: Make, average: Average, clusters: int, note: str
) -> None:
    n = 40 + 2 * clusters
    tags = [{"kind": "a" if i < 40 else "b"} for i in range(n)]
    result = outcomes(
        [1, 0, 0] * 12 + [1] * (n - 36), clusters=[f"p{i // 2}" for i in range(n)], tags=tags
    )
    assert (
        average(result, Aggregate(by=("kind",))).interval == f"stratified clustered bootstrap{note}"
    )


@pytest.mark.parametrize("value", [0, 1])
def test_all_alike_in_clusters_is_not_certain(outcomes: Make, average: Average, value: int) -> None:
    clusters = [f"p{i // 2}" for i in range(40)]
    result = average(outcomes([value] * 40, clusters=clusters))
    assert (result.low, result.high) == pytest.approx(wilson(20 * value, 20)[:2])
    assert result.interval == "wilson (clusters)"
    tags = [{"kind": "a" if i < 8 else "b"} for i in range(40)]
    macro = average(outcomes([value] * 40, clusters=clusters, tags=tags), Aggregate(by=("kind",)))
    # Groups of 4 and 16 clusters with half the weight each: 1 / (1/16 + 1/64) = 12.8.
    assert (macro.low, macro.high) == pytest.approx(wilson(12.8 * value, 12.8)[:2])


def test_half_credits_are_bootstrapped(outcomes: Make, average: Average) -> None:
    result = average(outcomes([0.5, 1, 0, 1] * 20))
    assert result.interval == "bootstrap"
    assert result.low < result.value < result.high


def test_means_of_scores(outcomes: Make, average: Average) -> None:
    few = average(outcomes([0.1, 0.2, 0.4], is_rate=False, chance=NAN))
    assert (few.interval, few.chance, few.is_rate) == ("bootstrap", None, False)
    score_N = np.random.default_rng(0).normal(0.25, 0.05, 10_001)
    many = average(outcomes(score_N.tolist(), is_rate=False))
    assert many.interval == "normal"
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.05 / 100, rel=0.05)


def test_a_ratio_of_sums(outcomes: Make, average: Average) -> None:
    result = average(outcomes([1, 1, 0, 0] * 10, weights=[1, 1, 1, 0] * 10, chance=NAN))
    assert result.value == pytest.approx(2 / 3)
    assert result.interval == "bootstrap"
    assert result.low < 2 / 3 < result.high
    nothing = average(outcomes([0, 0], weights=[0, 0], chance=NAN))
    assert np.isnan([nothing.value, nothing.low, nothing.high]).all()


def test_a_ratio_whose_resamples_can_be_empty(outcomes: Make, average: Average) -> None:
    result = average(outcomes([1, 0, 0], weights=[1, 1, 0], chance=NAN))
    assert result.value == 0.5
    assert 0 <= result.low <= result.high <= 1


def test_invalid_units(outcomes: Make, average: Average) -> None:
    result = average(outcomes([1] * 198 + [0] + [NAN]))
    assert (result.n, result.invalid) == (199, 1)
    assert result.value == pytest.approx(198 / 199)
    with pytest.raises(UnbagError, match="vg: accuracy: 3 of 200 units have a score") as error:
        average(outcomes([1] * 197 + [NAN] * 3))
    assert "at most 1%" in str(error.value)
    assert "--allow-invalid" in str(error.value)
    allowed = average(outcomes([1] * 197 + [NAN] * 3), allow_invalid=True)
    assert (allowed.n, allowed.invalid) == (197, 3)


def test_nothing_valid(outcomes: Make, average: Average) -> None:
    with pytest.raises(UnbagError, match="vg: accuracy: no unit to average under micro"):
        average(outcomes([]))
    for values in ([], [NAN, NAN]):
        result = average(outcomes(values), allow_invalid=True)
        assert np.isnan([result.value, result.low, result.high]).all()
        assert (result.n, result.invalid, result.chance) == (0, len(values), None)


def test_a_group_of_invalid_units_is_left_out(outcomes: Make, average: Average) -> None:
    tags = [{"kind": "a"}] * 200 + [{"kind": "b"}] * 2
    result = average(outcomes([1, 0] * 100 + [NAN] * 2, tags=tags), Aggregate(by=("kind",)))
    assert (result.value, result.n, result.invalid) == (0.5, 200, 2)


def test_rules_that_do_not_fit(outcomes: Make, average: Average) -> None:
    partly = outcomes([1, 0], tags=[{"kind": "a"}, {}])
    with pytest.raises(UnbagError, match="accuracy: unit 'u1' has no tag 'kind'"):
        average(partly, Aggregate(by=("kind",)))
    with pytest.raises(UnbagError, match="leaves out groups but has none"):
        average(partly, Aggregate(least=25))
    with pytest.raises(UnbagError, match=r"no unit to average under macro\(family\)"):
        average(partly, Aggregate(by=("family",)))


def test_seed_and_order(outcomes: Make, protocol: EvalProtocol) -> None:
    values, clusters = [1, 0, 1, 1, 0, 0, 1, 0.5], list("aabbccdd")
    forward = outcomes(values, clusters=clusters)
    backward = outcomes(values[::-1], clusters=clusters[::-1])
    result = [estimate(outcome, protocol=protocol, seed=0) for outcome in (forward, backward)]
    assert result[0] == result[1]


def test_by_tag(relations: Outcomes, protocol: EvalProtocol) -> None:
    result = by_tag(relations, protocol=protocol, seed=0)
    assert list(result) == ["relation=near", "relation=on", "relation=under"]
    assert [outcome.value for outcome in result.values()] == [0, 0.75, 1]
    assert (result["relation=on"].low, result["relation=on"].high) == wilson(3, 4)[:2]


def test_by_tag_leaves_out_constants_and_identities(outcomes: Make, protocol: EvalProtocol) -> None:
    tags = [{"subset": "A", "id": str(i), "half": str(i % 2)} for i in range(61)]
    result = by_tag(outcomes([1] * 60 + [NAN], tags=tags), protocol=protocol, seed=0)
    assert list(result) == ["half=0", "half=1"]
    assert (result["half=0"].n, result["half=0"].invalid) == (30, 1)


def test_a_macro_average_of_ones_is_one(outcomes: Make, average: Average) -> None:
    """Shares that are no binary fractions: their sum may not pass 1."""
    tags = [{"file": f"{n}", "column": f"{n % 9}"} for n in range(56)]
    result = average(outcomes([1.0] * 56, tags=tags), Aggregate(by=("column", "file")))
    assert (result.value, result.high) == (1.0, 1.0)


MakeCase = Callable[..., Case]


BENCH = Benchmark(
    name="toy",
    about="Which of two captions?",
    load=lambda root: [],
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(Aggregate(by=("kind",)), MICRO),
)


@pytest.fixture
def cases(case: MakeCase) -> list[Case]:
    rows = [("swap", 1), ("swap", 0), ("swap", 0), ("replace", 1)]
    return [
        case([0.5 + right, 1.0], [1, 0], name=f"i{i}", tags={"kind": kind})
        for i, (kind, right) in enumerate(rows)
    ]


def test_measure_gives_every_rule_and_every_tag(cases: list[Case], protocol: EvalProtocol) -> None:
    result = measure(BENCH, cases, protocol=protocol, seed=0)
    assert result.overall["macro(kind)"]["accuracy"].value == pytest.approx((1 / 3 + 1) / 2)
    assert result.overall["micro"]["accuracy"].value == 0.5
    assert result.by_tag["kind=swap"]["accuracy"].value == pytest.approx(1 / 3)
    assert result.outcomes["accuracy"].value_U.tolist() == [1, 0, 0, 1]


def test_results(cases: list[Case], protocol: EvalProtocol) -> None:
    result = measure(BENCH, cases, protocol=protocol, seed=0)
    macro, micro = result.results("model", is_blind=True)
    assert (macro.aggregate, micro.aggregate) == ("macro(kind)", "micro")
    assert (micro.benchmark, micro.scorer, micro.headline) == ("toy", "model", "accuracy")
    assert micro.protocol is protocol
    assert micro.is_blind
    assert micro.overall["accuracy"].n == 4
    assert set(micro.by_tag) == {"kind=replace", "kind=swap"}


def test_the_order_of_cases_changes_nothing(cases: list[Case], protocol: EvalProtocol) -> None:
    outcome = measure(BENCH, cases, protocol=protocol, seed=0)
    other = measure(BENCH, cases[::-1], protocol=protocol, seed=0)
    assert outcome.overall == other.overall
    assert outcome.by_tag == other.by_tag


def test_the_protocol_decides_ties(case: MakeCase) -> None:
    bench = replace(BENCH, aggregates=(MICRO,))
    tied = [case([0.5, 0.5], [1, 0], name="a"), case([0.7, 0.5], [1, 0], name="b")]
    for ties, expected in (("wrong", 0.5), ("half", 0.75), ("right", 1.0)):
        protocol = EvalProtocol(ties=ties, resamples=100)  # type: ignore[arg-type]
        result = measure(bench, tied, protocol=protocol, seed=0).overall["micro"]["accuracy"]
        assert (result.value, result.ties) == (expected, 1)


def test_a_rule_without_meaning_leaves_the_metric_out(
    case: MakeCase, protocol: EvalProtocol
) -> None:
    bench = replace(
        BENCH,
        metrics=(Pairs({"left/right": (0, 1), "on/under": (2, 3)}),),
        headline="pair",
        aggregates=(MICRO, Aggregate(by=("relation",))),
    )
    result = measure(bench, [case(np.eye(4), np.eye(4))], protocol=protocol, seed=0)
    assert "set" in result.overall["micro"]
    assert "set" not in result.overall["macro(relation)"]
    assert result.overall["macro(relation)"]["pair"].value == 1
    assert set(result.by_tag) == {"relation=left/right", "relation=on/under"}


def test_retention_stands_beside_the_recall_of_the_kept_order(
    case: MakeCase, protocol: EvalProtocol
) -> None:
    original = Aggregate(only=(("order", "kept"),))
    bench = replace(
        BENCH,
        metrics=(Recall((1,)), Retention()),
        headline="text_to_image@1",
        aggregates=(original, Aggregate(only=(("order", "shuffled"),))),
    )
    cases = [
        case(np.eye(4), np.eye(4), name="k", group="g", tags={"order": "kept"}),
        case(np.eye(4)[[0, 1, 3, 2]], np.eye(4), name="s", group="g", tags={"order": "shuffled"}),
    ]
    result = measure(bench, cases, protocol=protocol, seed=0).overall
    assert result["micro[order=kept]"]["text_to_image@1"].value == 1.0
    assert result["micro[order=kept]"]["retention"].value == 0.5
    assert result["micro[order=kept]"]["retention"].chance is None
    assert result["micro[order=shuffled]"]["text_to_image@1"].value == 0.5
    assert "retention" not in result["micro[order=shuffled]"]


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


def test_invalid_scores_need_leave(case: MakeCase, protocol: EvalProtocol) -> None:
    bench = replace(BENCH, aggregates=(MICRO,))
    damaged = [case([np.nan, 0.5], [1, 0], name="a"), case([0.7, 0.5], [1, 0], name="b")]
    with pytest.raises(UnbagError, match="toy: accuracy: 1 of 2 units"):
        measure(bench, damaged, protocol=protocol, seed=0)
    result = measure(bench, damaged, protocol=protocol, seed=0, allow_invalid=True)
    assert result.overall["micro"]["accuracy"].value == 1.0
    assert result.overall["micro"]["accuracy"].invalid == 1
