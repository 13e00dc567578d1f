"""Recipes have the settings of the papers; settings change them or are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from unbag.cli.main import main
from unbag.edits.kinds import find_kinds
from unbag.errors import UnbagError
from unbag.readouts.training import ReaderEffort
from unbag.registry import names
from unbag.runs.identity import described, differences
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.losses import contrastive, distil
from unbag.training.objective import Objective, Term, ThresholdRule
from unbag.training.recipes import Freeze, Lora, Recipe, make_recipe
from unbag.training.settings import RENAMED, choose, with_current_names, with_first_names
from unbag.types import Embedded

from .small_runs import rows as logged
from .small_world import small

RECIPES = sorted(names("recipe"))


def terms(recipe: Recipe) -> dict[str, float]:
    return {term.name: term.weight for term in recipe.objective.terms if term.weight}


def bound(recipe: Recipe, name: str) -> dict[str, object]:
    loss = next(term.loss for term in recipe.objective.terms if term.name == name)
    return dict(loss.keywords) if isinstance(loss, partial) else {}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_by_its_name(name: str) -> None:
    recipe = make_recipe(name)
    assert recipe.name == name
    assert recipe.source
    for slot in (*recipe.negatives, *recipe.positives):
        assert find_kinds(slot.kinds), slot
    wants_positive = {kind.is_positive for s in recipe.positives for kind in find_kinds(s.kinds)}
    wants_negative = {kind.is_positive for s in recipe.negatives for kind in find_kinds(s.kinds)}
    assert wants_positive <= {True}
    assert wants_negative <= {False}
    # The optimiser that CLIP, NegCLIP, SVLC and CE-CLIP share.
    assert (recipe.learning_rate, recipe.warmup_steps, recipe.epochs) == (5e-6, 50, 5)
    assert (recipe.betas, recipe.epsilon) == ((0.9, 0.98), 1e-6)


def test_weights_and_sizes_are_those_of_the_papers() -> None:
    weights = {name: terms(make_recipe(name)) for name in RECIPES}
    assert weights == {
        "clip_ft": {"contrastive": 1.0},
        "neg_clip": {"contrastive_negatives": 1.0},
        "svlc": {"contrastive_negatives": 1.0, "svlc_negative": 1.0},
        "hard_negative": {"contrastive_negatives": 1.0, "svlc_negative": 1.0},
        "hard_positive": {
            "contrastive_negatives": 1.0,
            "svlc_negative": 1.0,
            "svlc_positive": 1.0,
        },
        "ce_clip": {"contrastive_negatives": 1.0, "intra_modal": 0.2, "rank": 0.4},
        "ce_clip_fixed": {"contrastive_negatives": 1.0, "intra_modal": 0.2, "rank": 0.4},
        "locked_image": {"contrastive": 1.0},
        "siglip_hn": {"sigmoid": 1.0},
    }
    sizes = {name: make_recipe(name).batch_size for name in RECIPES}
    assert {name: size for name, size in sizes.items() if size != 256} == {
        "svlc": 128,
        "hard_negative": 512,
        "hard_positive": 512,
        "locked_image": 512,
    }
    assert {name for name in RECIPES if make_recipe(name).lora} == {"svlc"}
    assert {name for name in RECIPES if make_recipe(name).hard_images} == {"neg_clip"}
    assert make_recipe("locked_image").freeze == Freeze(image="all")
    assert make_recipe("locked_image").weight_decay == 0.0
    bounds = {name: make_recipe(name).max_logit_scale for name in RECIPES}
    assert {name: bound for name, bound in bounds.items() if bound != 100} == {"siglip_hn": 1000}
    assert make_recipe("clip_ft").weight_decay == 0.1


def test_ce_clip_is_as_printed_and_the_fixed_one_is_not() -> None:
    paper, ours = make_recipe("ce_clip"), make_recipe("ce_clip_fixed")
    assert bound(paper, "intra_modal") == {"denominator": "paper"}
    assert bound(paper, "rank") == {"reduction": "cell_mean"}
    assert bound(ours, "intra_modal") == {"denominator": "with_positive"}
    assert bound(ours, "rank") == {"reduction": "valid_mean"}
    for recipe in (paper, ours):
        assert recipe.objective.threshold == ThresholdRule("adaptive", upper=10.0)
        names = [slot.name for slot in recipe.negatives]
        assert names == ["relation", "attribute", "object", "action"]
    assert make_recipe("ce_clip", ["upper=none"]).objective.threshold == ThresholdRule(upper=None)


def test_weights_of_the_hard_positive_recipe() -> None:
    """At 0 an edit is in no loss, not even in the denominator."""
    only_positive = make_recipe("hard_positive", ["negative=0"])
    assert terms(only_positive) == {"contrastive": 1.0, "svlc_positive": 1.0}
    assert only_positive.negatives == ()
    quarter = make_recipe("hard_positive", ["negative=0.25"])
    assert terms(quarter)["svlc_negative"] == 0.25
    apart = make_recipe("hard_positive", ["neg_in_contrastive=false"])
    assert terms(apart) == {"contrastive": 1.0, "svlc_negative": 1.0, "svlc_positive": 1.0}
    assert make_recipe("hard_negative").positives == ()


@pytest.mark.parametrize(
    ("setting", "kinds", "others"),
    [
        ("family=swap", "swap_arguments swap_attributes conjunct_swap", "replace_noun synonym"),
        ("family=replace", "replace_noun antonym synonym", "swap_arguments conjunct_swap"),
        ("rephrases=true", "swap_arguments replace_noun passive article", "synonym conjunct_swap"),
    ],
)
def test_families_of_the_hard_positive_recipe(setting: str, kinds: str, others: str) -> None:
    recipe = make_recipe("hard_positive", [setting])
    used = {*recipe.negatives[0].kinds, *recipe.positives[0].kinds}
    assert set(kinds.split()) <= used
    assert not set(others.split()) & used


def test_settings_reach_every_part() -> None:
    settings = ["learning_rate=1e-6", "batch_size=8", "clip_norm=none", "freeze.image=all"]
    settings += ["freeze.text=2", "lora.rank=8", "betas=(0.8, 0.9)", "weight_decay=1"]
    recipe = make_recipe("clip_ft", settings)
    assert (recipe.learning_rate, recipe.batch_size, recipe.clip_norm) == (1e-6, 8, None)
    assert recipe.freeze == Freeze(image="all", text=2)
    assert recipe.lora == Lora(rank=8)
    assert recipe.betas == (0.8, 0.9)
    assert recipe.weight_decay == 1.0
    assert type(recipe.weight_decay) is float
    assert make_recipe("svlc", ["lora=none", "with_positives=true"]).lora is None


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("clip_ft", "rate", "the setting 'rate'; expected: field=value"),
        ("clip_ft", "=3", "the setting '=3'; expected: field=value"),
        ("clip_ft", "learning_rat=1", "did you mean 'learning_rate'"),
        ("clip_ft", "objective=x", "unknown setting 'objective'"),
        ("clip_ft", "freeze.colour=1", "unknown setting 'freeze.colour'"),
        ("clip_ft", "batch_size=many", "the setting batch_size=many; expected: a whole number"),
        ("clip_ft", "batch_size=few", "hint:     as in --set batch_size=2, or leave it out"),
        ("clip_ft", "masks_equal=2", "hint:     as in --set masks_equal=true, or leave it out"),
        ("clip_ft", "freeze=some", "hint:     as in --set freeze.image=..., or leave it out"),
        ("clip_ft", "betas=3", "hint:     as in --set betas=(0.5,0.5), or leave it out"),
        ("hard_positive", "family=one", "hint:     as in --set family=both, or leave it out"),
        ("clip_ft", "batch_size=1.5", "the setting batch_size=1.5; expected: a whole number"),
        ("clip_ft", "batch_size=true", "the setting batch_size=True; expected: a whole number"),
        ("clip_ft", "masks_equal=1", "the setting masks_equal=1; expected: true or false"),
        ("clip_ft", "learning_rate=fast", "expected: a number"),
        ("clip_ft", "clip_norm=no", "the setting clip_norm=no; expected: a number or none"),
        ("clip_ft", "lora=4", "expected: parts of it, such as lora.rank or none"),
        ("clip_ft", "freeze=all", "expected: parts of it, such as freeze.image"),
        ("clip_ft", "freeze.image=most", "expected: a whole number or part, all"),
        ("clip_ft", "betas=(0.9,)", "expected: (a number, a number)"),
        ("clip_ft", "betas=(0.9,1)", "a recipe with betas=(0.9, 1.0); expected: each at least 0"),
        ("clip_ft", "batch_size=0", "a recipe with batch_size=0; expected: at least 1"),
        ("clip_ft", "epochs=-1", "a recipe with epochs=-1; expected: at least 1"),
        ("clip_ft", "learning_rate=1e999", "a recipe with learning_rate=inf; expected: above 0"),
        ("clip_ft", "l2_to_init=-1", "a recipe with l2_to_init=-1.0; expected: at least 0"),
        ("clip_ft", "clip_norm=0", "a recipe with clip_norm=0.0; expected: above 0"),
        ("clip_ft", "epsilon=0", "hint:     as in --set epsilon=1e-06, or leave it out"),
        ("clip_ft", "weight_decay=-1", "hint:     as in --set weight_decay=0.1, or leave it out"),
        ("clip_ft", "warmup_steps=-1", "a recipe with warmup_steps=-1; expected: at least 0"),
        ("clip_ft", "lora.rank=0", "a recipe with lora.rank=0; expected: at least 1"),
        ("clip_ft", "lora.alpha=0", "a recipe with lora.alpha=0.0; expected: above 0"),
        ("clip_ft", "lora.dropout=1", "hint:     as in --set lora.dropout=0.0, or leave it out"),
        ("clip_ft", "lora.rank=many", "the setting lora.rank=many; expected: a whole number"),
        ("clip_ft", "distil=much", "the setting distil=much; expected: a number"),
        ("clip_ft", "distil=-1", "the loss term 'distil' has weight -1.0"),
        ("clip_ft", "max_logit_scale=0.5", "with max_logit_scale=0.5; expected: at least 1"),
        ("hard_positive", "negative=1.5", "a weight of 1.5 for negative; expected: 0 to 1"),
        ("hard_positive", "positive=-0.1", "a weight of -0.1 for positive; expected: 0 to 1"),
        ("hard_positive", "negative=strong", "the setting negative=strong; expected: a number"),
        ("hard_positive", "family=none", "the setting family=None; expected: both, swap, replace"),
        ("ce_clip", "upper=0", "thresholds bounded by 0.0"),
        ("neg_clip", "hard_images=3", "the setting hard_images=3; expected: true or false"),
    ],
)
def test_a_bad_setting(name: str, setting: str, message: str) -> None:
    with pytest.raises(UnbagError) as caught:
        make_recipe(name, [setting])
    assert message in str(caught.value).replace("\n  ", "; ")


def test_an_unknown_recipe() -> None:
    with pytest.raises(UnbagError, match="unknown recipe 'neg_clap'"):
        make_recipe("neg_clap")


NOT_CALLABLE = 3


def returns_text() -> str:
    return "no recipe"


def needs_size(size: int, strange: Missing = None) -> Recipe:  # type: ignore[name-defined]  # noqa: F821
    return Recipe(
        "mine", "ours", Objective((Term("contrastive", 1.0, contrastive),)), batch_size=size
    )


def test_recipes_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "others_recipes", sys.modules[__name__])
    assert make_recipe("others_recipes:needs_size", ["size=4", "epochs=1"]).batch_size == 4
    for name, message in {
        "NOT_CALLABLE": "is a int",
        "returns_text": "returns a str",
        "needs_size": "needs size",
    }.items():
        with pytest.raises(UnbagError, match=message):
            make_recipe(f"others_recipes:{name}")


def test_the_list_of_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "recipes"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in RECIPES)


def test_recipes_need_no_torch() -> None:
    code = (
        "import sys\n"
        "from unbag.training.recipes import make_recipe\n"
        f"for name in {RECIPES!r}: make_recipe(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def other_loss(embedded: Embedded) -> object:
    return embedded.scale


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        # Two losses may have the same numbers and be different functions.
        (partial(contrastive), partial(other_loss), "function"),
        (partial(pow, 2), partial(pow, 3), "arguments[0]: 2 before, 3 now"),
        (Lora(rank=4), Lora(rank=8), "rank: 4 before, 8 now"),
        (Freeze(), Lora(), "class"),
        ({"a": None}, {"a": ""}, "a: nothing before, empty now"),
        ({"a": "x" * 90}, {"a": None}, f"a: {'x' * 57}... before, nothing now"),
    ],
)
def test_differences_are_named(old: object, new: object, named: str) -> None:
    lines = differences(described(old), described(new))
    assert any(named in line for line in lines), lines
    assert differences(described(old), described(old)) == []


def test_distillation_for_any_recipe() -> None:
    plain, gentle = make_recipe("ce_clip_fixed"), make_recipe("ce_clip_fixed", ["distil=0.5"])
    assert not plain.objective.needs_start
    assert gentle.objective.needs_start
    *terms, last = gentle.objective.terms
    assert (last.name, last.weight, last.loss) == ("distil", 0.5, distil)
    assert described(terms) == described(plain.objective.terms)
    assert gentle.objective.threshold == plain.objective.threshold


def test_settings_of_an_earlier_version_are_answered_with_their_new_names() -> None:
    for old, new in RENAMED.items():
        if old in ("crowd", "locked_steps"):
            continue
        with pytest.raises(UnbagError, match=f"the setting '{old}' is now '{new}'"):
            make_recipe("clip_ft", [f"{old}=1"])
    with pytest.raises(UnbagError, match="the setting 'crowd' is now 'contrast_size'"):
        choose(ReaderEffort(), ["crowd=8"], readout="pooled")
    assert with_current_names(with_first_names({"batch_size": 3, "rank": 1})) == {
        "batch_size": 3,
        "rank": 1,
    }


PAGE = Path(__file__).parents[2] / "docs" / "background" / "losses.md"


def printed() -> str:
    page = PAGE.read_text(encoding="utf-8")
    weights = re.search(r"^```python title=\"my_recipe.py\"\n(.*?)^```", page, re.M | re.S)
    assert weights is not None
    return weights[1]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings of the recipe on the page, with its file in place."""
    (tmp_path / "my_recipe.py").write_text(printed(), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_recipe", raising=False)
    return ["lowest=0.3", "epochs=1"]


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
