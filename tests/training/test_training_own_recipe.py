"""The recipe that docs/training.md prints trains a model."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.recipes import make_recipe
from unbag.types import Embedded

from .small_runs import rows as logged
from .small_world import small

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def printed() -> str:
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"^```python title=\"my_recipe.py\"\n(.*?)^```", page, re.M | re.S)
    assert found is not None
    return found[1]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the command on the page, with the file in place."""
    (tmp_path / "my_recipe.py").write_text(printed(), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_recipe", raising=False)
    page = PAGE.read_text(encoding="utf-8")
    (found,) = re.findall(r"^unbag train --recipe my_recipe:bold --set (.*) \.\.\.$", page, re.M)
    return str(found).split()


def test_a_setting_reaches_the_loss(settings: list[str]) -> None:
    recipe = make_recipe("my_recipe:bold", settings)
    assert (recipe.name, recipe.epochs, recipe.batch_size) == ("bold", 1, 512)
    # Cosines of 0.6 and 0: the second lacks 0.3, so the mean is 0.15.
    batch = Embedded(
        image_BD=torch.eye(2),
        caption_BD=torch.tensor([[0.6, 0.8], [1.0, 0.0]]),
        scale=torch.tensor(10.0),
        bias=torch.tensor(0.0),
    )
    assert recipe.objective(batch).terms["keep_high"].item() == pytest.approx(0.15)


def test_it_trains_and_is_logged(settings: list[str], tmp_path: Path) -> None:
    recipe = make_recipe("my_recipe:bold", [*settings, "batch_size=4"])
    trainable = make_trainable(small(1), device="cpu")
    batches = WorldBatches(recipe, trainable.reads, per_epoch=3)
    trained = train(TrainJob(trainable, batches, recipe, tmp_path / "run"))
    assert trained.is_done
    rows = logged(tmp_path / "run")
    # The term counts ten times; the others are those of hard_negative, at weight 1.
    assert len(rows) == 3
    for row in rows:
        plain = row["contrastive_negatives"] + row["svlc_negative"]
        assert row["loss"] == pytest.approx(plain + 10 * row["keep_high"], rel=1e-4)
