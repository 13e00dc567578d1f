"""Terms, weights and the rule of the margins; torch is not imported before a loss is computed."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.training.losses import contrastive, distil, rank
from unbag.training.objective import Objective, Term, ThresholdRule
from unbag.types import Embedded


def never(embedded: Embedded) -> Tensor:
    raise AssertionError("a term of weight 0 was computed")


def test_the_total_is_the_weighted_sum_of_the_terms(toy: Embedded) -> None:
    objective = Objective(
        (Term("one", 2.0, contrastive), Term("none", 0.0, never), Term("two", 0.5, rank))
    )
    losses = objective(toy)
    assert list(losses.terms) == ["one", "two"]
    assert losses.terms["one"].item() == contrastive(toy).item()
    assert losses.terms["two"].item() == rank(toy).item()
    expected = 2 * losses.terms["one"].item() + 0.5 * losses.terms["two"].item()
    assert losses.total.item() == pytest.approx(expected, abs=1e-15)


def test_the_gradient_of_the_total_is_the_weighted_sum_too(toy: Embedded) -> None:
    image = toy.image_BD.clone().requires_grad_()
    batch = replace(toy, image_BD=image)
    objective = Objective((Term("one", 2.0, contrastive), Term("two", 0.5, rank)))
    (whole,) = torch.autograd.grad(objective(batch).total, image)
    (one,) = torch.autograd.grad(contrastive(batch), image)
    (two,) = torch.autograd.grad(rank(batch), image)
    assert torch.allclose(whole, 2 * one + 0.5 * two, atol=1e-12)


RANK = Term("rank", 1.0, rank)


@pytest.mark.parametrize(
    ("make", "message", "expected"),
    [
        (lambda: Term("rank", -1.0, rank), "'rank' has weight -1.0", "a finite number, 0 or more"),
        (lambda: Term("rank", float("nan"), rank), "has weight nan", "a finite number"),
        (lambda: Term("rank", float("inf"), rank), "has weight inf", "a finite number"),
        (lambda: Objective((RANK, replace(RANK, weight=0.0))), "terms are called 'rank'", "a name"),
        (lambda: Objective(()), "an objective without any loss", "a weight above 0"),
        (lambda: Objective((replace(RANK, weight=0.0),)), "without any loss", "a weight above 0"),
        (lambda: ThresholdRule(upper=0.0), "thresholds bounded by 0", "a bound above 0, or None"),
        (lambda: ThresholdRule(mode="fixed", fixed=-1.0), "threshold of -1", "a finite number, 0"),
        (lambda: ThresholdRule(mode=cast(Any, "max")), "unknown mode of thresholds 'max'", ""),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[[], object], message: str, expected: str) -> None:
    with pytest.raises(UnbagError, match=message) as caught:
        make()
    assert expected in caught.value.expected


def test_whether_the_starting_weights_are_needed() -> None:
    plain = Term("contrastive", 1.0, contrastive)
    assert not Objective((plain,)).needs_start
    assert not Objective((plain, Term("distil", 0.0, distil, needs_start=True))).needs_start
    assert Objective((plain, Term("distil", 0.1, distil, needs_start=True))).needs_start


def test_the_rule_gives_margins_step_by_step(toy: Embedded) -> None:
    rule = ThresholdRule()
    assert (rule.mode, rule.upper, rule.resets_each_epoch) == ("adaptive", 10.0, False)
    first = rule.first(4)
    assert first.tolist() == [0.0] * 4
    second = rule.next(replace(toy, threshold_K=first))
    assert second.tolist() == pytest.approx([2, 3.6, 6.6, 0])
    assert ThresholdRule(upper=5.0).next(toy).tolist() == pytest.approx([2, 3.6, 5, 0])
    fixed = ThresholdRule(mode="fixed", fixed=2.0)
    assert fixed.first(3).tolist() == [2.0] * 3
    assert fixed.next(toy).tolist() == [2.0] * 4


def test_recipes_can_name_losses_without_torch() -> None:
    code = (
        "import sys, unbag.training.losses, unbag.training.objective\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
