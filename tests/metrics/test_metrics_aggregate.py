from collections.abc import Callable

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.metrics import by_tag, estimate, wilson
from unbag.types import MICRO, Aggregate, Estimate, EvalProtocol, Outcomes

Make = Callable[..., Outcomes]
NAN = float("nan")
RELATIONS = {"on": [1, 1, 1, 0], "near": [0, 0], "under": [1]}


@pytest.fixture
def relations(outcomes: Make) -> Outcomes:
    values = [v for found in RELATIONS.values() for v in found]
    tags = [{"relation": name} for name, found in RELATIONS.items() for _ in found]
    made: Outcomes = outcomes(values, tags=tags)
    return made


@pytest.fixture
def average(protocol: EvalProtocol) -> Callable[..., Estimate]:
    def run(found: Outcomes, aggregate: Aggregate = MICRO, **options: bool) -> Estimate:
        return estimate(found, aggregate, protocol=protocol, seed=0, benchmark="vg", **options)

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
    found = average(relations, Aggregate(only=(("relation", "on"),)))
    assert (found.value, found.n) == (0.75, 4)


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
    found = outcomes(
        [value / 100 for value in SUGARCREPE.values()],
        tags=[{"family": f, "type": f"{f} {t}"} for f, t in SUGARCREPE],
    )
    assert average(found, Aggregate(by=("type",))).value == pytest.approx(0.7299, abs=5e-5)
    assert average(found, Aggregate(by=("family", "type"))).value == pytest.approx(0.7181, abs=5e-5)
    for family, expected in (("replace", 0.8003), ("swap", 0.6270), ("add", 0.7270)):
        rule = Aggregate(by=("type",), only=(("family", family),))
        assert average(found, rule).value == pytest.approx(expected, abs=5e-5)


def test_nested_macro_with_equal_names_below(outcomes: Make, average: Average) -> None:
    """The same value of the inner tag in two families is two groups."""
    found = outcomes(
        [1, 0, 0],
        tags=[{"family": f, "kind": k} for f, k in (("a", "x"), ("a", "y"), ("b", "x"))],
    )
    assert average(found, Aggregate(by=("family", "kind"))).value == pytest.approx(0.25)


def test_clusters_are_resampled_together(outcomes: Make, average: Average) -> None:
    rng = np.random.default_rng(0)
    values = np.repeat(rng.integers(0, 2, 60), 5)
    clusters = [f"p{i // 5}" for i in range(300)]
    found = average(outcomes(values.tolist(), clusters=clusters))
    assert found.interval == "clustered bootstrap"
    alone = wilson(values.sum() / 5, 60)
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_groups_that_share_images_are_no_more_certain_than_one(
    outcomes: Make, average: Average
) -> None:
    """Seven kinds that agree in each of 100 images say no more than the 100 images."""
    value_P = np.random.default_rng(0).integers(0, 2, 100)
    tags = [{"kind": str(i // 100)} for i in range(700)]
    images = [f"p{i % 100}" for i in range(700)]
    kinds = Aggregate(by=("kind",))
    found = average(outcomes(np.tile(value_P, 7).tolist(), clusters=images, tags=tags), kinds)
    assert found.interval == "clustered bootstrap, joint over groups"
    half = 1.96 * value_P.std() / 10
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)
    alone = average(outcomes(np.tile(value_P, 7).tolist(), tags=tags), kinds)
    assert alone.interval == "stratified bootstrap"
    assert alone.value == pytest.approx(found.value)
    assert alone.high - alone.low == pytest.approx(2 * half / np.sqrt(7), rel=0.1)


def test_one_shared_image_is_enough(outcomes: Make, average: Average) -> None:
    tags = [{"kind": "a" if i < 6 else "b"} for i in range(12)]
    clusters = [f"p{i}" for i in range(11)] + ["p0"]
    found = average(outcomes([1, 0] * 6, clusters=clusters, tags=tags), Aggregate(by=("kind",)))
    assert found.interval == "clustered bootstrap, joint over groups"
    backward = outcomes([0, 1] * 6, clusters=clusters[::-1], tags=tags[::-1])
    again = average(backward, Aggregate(by=("kind",)))
    assert (again.low, again.high) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize(("clusters", "note"), [(4, ", few clusters"), (5, "")])
def test_a_group_of_few_clusters_is_said(
    outcomes: Make, average: Average, clusters: int, note: str
) -> None:
    n = 40 + 2 * clusters
    tags = [{"kind": "a" if i < 40 else "b"} for i in range(n)]
    found = outcomes(
        [1, 0, 0] * 12 + [1] * (n - 36), clusters=[f"p{i // 2}" for i in range(n)], tags=tags
    )
    assert (
        average(found, Aggregate(by=("kind",))).interval == f"stratified clustered bootstrap{note}"
    )


@pytest.mark.parametrize("value", [0, 1])
def test_all_alike_in_clusters_is_not_certain(outcomes: Make, average: Average, value: int) -> None:
    clusters = [f"p{i // 2}" for i in range(40)]
    found = average(outcomes([value] * 40, clusters=clusters))
    assert (found.low, found.high) == pytest.approx(wilson(20 * value, 20)[:2])
    assert found.interval == "wilson (clusters)"
    tags = [{"kind": "a" if i < 8 else "b"} for i in range(40)]
    macro = average(outcomes([value] * 40, clusters=clusters, tags=tags), Aggregate(by=("kind",)))
    # Groups of 4 and 16 clusters with half the weight each: 1 / (1/16 + 1/64) = 12.8.
    assert (macro.low, macro.high) == pytest.approx(wilson(12.8 * value, 12.8)[:2])


def test_half_credits_are_bootstrapped(outcomes: Make, average: Average) -> None:
    found = average(outcomes([0.5, 1, 0, 1] * 20))
    assert found.interval == "bootstrap"
    assert found.low < found.value < found.high


def test_means_of_scores(outcomes: Make, average: Average) -> None:
    few = average(outcomes([0.1, 0.2, 0.4], is_rate=False, chance=NAN))
    assert (few.interval, few.chance, few.is_rate) == ("bootstrap", None, False)
    score_N = np.random.default_rng(0).normal(0.25, 0.05, 10_001)
    many = average(outcomes(score_N.tolist(), is_rate=False))
    assert many.interval == "normal"
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.05 / 100, rel=0.05)


def test_a_ratio_of_sums(outcomes: Make, average: Average) -> None:
    found = average(outcomes([1, 1, 0, 0] * 10, weights=[1, 1, 1, 0] * 10, chance=NAN))
    assert found.value == pytest.approx(2 / 3)
    assert found.interval == "bootstrap"
    assert found.low < 2 / 3 < found.high
    nothing = average(outcomes([0, 0], weights=[0, 0], chance=NAN))
    assert np.isnan([nothing.value, nothing.low, nothing.high]).all()


def test_a_ratio_whose_resamples_can_be_empty(outcomes: Make, average: Average) -> None:
    found = average(outcomes([1, 0, 0], weights=[1, 1, 0], chance=NAN))
    assert found.value == 0.5
    assert 0 <= found.low <= found.high <= 1


def test_invalid_units(outcomes: Make, average: Average) -> None:
    found = average(outcomes([1] * 198 + [0] + [NAN]))
    assert (found.n, found.invalid) == (199, 1)
    assert found.value == pytest.approx(198 / 199)
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
        found = average(outcomes(values), allow_invalid=True)
        assert np.isnan([found.value, found.low, found.high]).all()
        assert (found.n, found.invalid, found.chance) == (0, len(values), None)


def test_a_group_of_invalid_units_is_left_out(outcomes: Make, average: Average) -> None:
    tags = [{"kind": "a"}] * 200 + [{"kind": "b"}] * 2
    found = average(outcomes([1, 0] * 100 + [NAN] * 2, tags=tags), Aggregate(by=("kind",)))
    assert (found.value, found.n, found.invalid) == (0.5, 200, 2)


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
    found = [estimate(one, protocol=protocol, seed=0) for one in (forward, backward)]
    assert found[0] == found[1]


def test_by_tag(relations: Outcomes, protocol: EvalProtocol) -> None:
    found = by_tag(relations, protocol=protocol, seed=0)
    assert list(found) == ["relation=near", "relation=on", "relation=under"]
    assert [one.value for one in found.values()] == [0, 0.75, 1]
    assert (found["relation=on"].low, found["relation=on"].high) == wilson(3, 4)[:2]


def test_by_tag_leaves_out_constants_and_identities(outcomes: Make, protocol: EvalProtocol) -> None:
    tags = [{"subset": "A", "id": str(i), "half": str(i % 2)} for i in range(61)]
    found = by_tag(outcomes([1] * 60 + [NAN], tags=tags), protocol=protocol, seed=0)
    assert list(found) == ["half=0", "half=1"]
    assert (found["half=0"].n, found["half=0"].invalid) == (30, 1)


def test_a_macro_average_of_ones_is_one(outcomes: Make, average: Average) -> None:
    """Shares that are no binary fractions: their sum may not pass 1."""
    tags = [{"file": f"{n}", "column": f"{n % 9}"} for n in range(56)]
    found = average(outcomes([1.0] * 56, tags=tags), Aggregate(by=("column", "file")))
    assert (found.value, found.high) == (1.0, 1.0)
