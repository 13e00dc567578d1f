"""A reader that never sees an image: what it can be told, and what it cannot."""

import torch

from unbag.training.before_after import choose_and_fit, fit_preference


def test_it_finds_the_feature_that_gives_edits_away() -> None:
    apart = torch.randn(400, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    apart[:, 2] = apart[:, 2].abs() + 0.1
    weight = choose_and_fit(apart, [at // 4 for at in range(400)])
    assert int(weight.argmax()) == 2
    assert bool((apart @ weight > 0).double().mean() > 0.95)


def test_the_slope_is_nothing_where_it_stops() -> None:
    apart = torch.randn(300, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weight = fit_preference(apart, 1e-2).requires_grad_()
    loss = torch.nn.functional.softplus(-(apart @ weight)).mean() + 5e-3 * weight @ weight
    [slope] = torch.autograd.grad(loss, weight)
    assert float(slope.abs().max()) < 1e-9
