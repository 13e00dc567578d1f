"""The model card: all that was given is in it, its head is YAML, and nothing empty is shown."""

from pathlib import Path
from typing import Any

import pytest

from unbag.reports.cards import Agreement, Card, Cost, Exported, LeftOut, LibraryForm, card_of_copy
from unbag.reports.cards import render_card as render

FOUND = Exported(
    Path("out"),
    "mine",
    "open_clip-1",
    100.0,
    0.0,
    (
        LibraryForm("open_clip", "open_clip", Agreement(0.0), (("open_clip/w", "ab"),)),
        LibraryForm(
            "transformers", "transformers", Agreement(2e-7, 1.0, 0.999987), (), "CLIPModel"
        ),
    ),
    notes=("One thing differs.",),
)
CARD = Card(
    title="ViT-B-32,\nrepaired",
    base="hf:openai/clip-vit-base-patch32",
    recipe="hard_positive",
    settings="- batch 256",
    data="COCO train2014, 566,747 captions.",
    table="| | before | after |\n|---|---|---|\n| swap | 50.1 | 71.2 |",
    cost=Cost(steps=1250, samples=320_000, seconds=4000.0, device="1 x H200"),
    licence="MIT.",
    command="unbag train --recipe hard_positive",
    version="9.9",
)


def head(card: str) -> Any:
    yaml = pytest.importorskip("yaml")
    _, said, rest = card.split("---\n", 2)
    assert rest.startswith("\n# ")
    return yaml.safe_load(said)


def test_the_card_has_recipe_data_numbers_and_cost() -> None:
    card = render(CARD, FOUND)
    assert "\n# ViT-B-32, repaired\n" in card
    assert "- Recipe: `hard_positive`\n- From: `hf:openai/clip-vit-base-patch32`" in card
    assert "- Cost: 1,250 steps, 320,000 images, 1 h 6 min on 1 x H200" in card
    assert "### Data\n\nCOCO train2014, 566,747 captions.\n" in card
    assert "### Settings\n\n- batch 256\n" in card
    assert "### Command\n\n```\nunbag train --recipe hard_positive\n```" in card
    assert "## Before and after\n\n| | before | after |" in card
    assert "| `transformers` | 2.0e-07 | 1.00 of 255 | 0.999987 |\n\n- One thing differs." in card
    assert "## Licence\n\nMIT.\n" in card
    assert 'transformers.CLIPModel.from_pretrained("DIR/transformers")' in card
    assert "unbag run --model open_clip:local-dir:DIR/open_clip" in card
    assert card.endswith("Written by unbag 9.9; `unbag.json` has all of this as data.\n")
    assert "\n\n\n" not in card


def test_the_head_is_what_the_hub_reads() -> None:
    assert head(render(CARD, FOUND)) == {
        "library_name": "open_clip",
        "pipeline_tag": "zero-shot-image-classification",
        "tags": ["clip", "compositionality", "unbag"],
        "base_model": "openai/clip-vit-base-patch32",
    }


@pytest.mark.parametrize("base", ["open_clip:ViT-B-32/openai", "hf:a/b/c", "tiny:base"])
def test_a_base_that_is_not_on_the_hub_is_not_in_the_head(base: str) -> None:
    card = render(card_of_copy(base, name="x: [y"), FOUND)
    assert "base_model" not in head(card)
    assert f"An export of `{base}`" in card


def test_a_card_without_training_has_no_empty_parts() -> None:
    card = render(card_of_copy("tiny:base", name="tiny:base"), FOUND)
    for heading in ("## Training", "### Data", "### Settings", "## Before", "## Made by"):
        assert heading not in card
    assert "That of the original weights" in card


def test_a_form_that_was_left_out_is_on_the_card() -> None:
    left = Exported(
        Path("out"), "mine", "f", 1.0, 0.0, FOUND.folders[:1], (LeftOut("transformers", "why"),)
    )
    assert "Not exported to transformers: why." in render(CARD, left)


@pytest.mark.parametrize(
    ("seconds", "said"), [(59.6, "1 min 0 s"), (125.0, "2 min 5 s"), (7200.0, "2 h 0 min")]
)
def test_time_is_said_in_words(seconds: float, said: str) -> None:
    card = render(Card("t", "b", recipe="r", cost=Cost(1, 2, seconds, "CPU")), FOUND)
    assert f"1 steps, 2 images, {said} on CPU" in card
