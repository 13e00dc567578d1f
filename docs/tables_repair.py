"""Tables of the pages about repair: kinds of edits, recipes, losses and read-outs with settings.

`docs/make.py` puts each table of `GENERATED` into the block of its name.
"""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from unbag.edits.kinds import GROUPS, Kind, find_kinds
from unbag.edits.quality import (
    EditCase,
    EditVerdict,
    Precision,
    Truth,
    is_right,
    kappa,
    precision_of,
)
from unbag.readouts.base import find_readout
from unbag.readouts.dcsm import DcsmSettings
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.pacl import PaclSettings
from unbag.readouts.pooled import PooledSettings
from unbag.readouts.sparc import SparcSettings
from unbag.readouts.training import ReaderEffort, ReaderReadout
from unbag.readouts.vlm2vec.training import Vlm2VecSettings
from unbag.registry import find, names
from unbag.reports.formatting import number_text, with_interval
from unbag.training.recipes import Freeze, Lora, Recipe, Slot, make_recipe
from unbag.types import Edit
from unbag_lab.pages import table

DOCS = Path(__file__).parent
JUDGEMENTS = DOCS / "data" / "edit_judgements.tsv"
"""What two readers said of each edit."""
MEASUREMENTS = DOCS / "data" / "edit_measurements.tsv"
"""By kind: percent of 5,000 captions with a place for it; percent of pairs in which SmolLM2-135M
finds the original likelier, by the whole caption and by token; number of these pairs."""
USUAL_PAIRS = 200
"""Pairs of a kind, where there are as many."""


def code(text: object) -> str:
    """Text in the font of code, nothing for no text."""
    return f"`{text}`" if str(text) else ""


# --- edits --------------------------------------------------------------------------------------


def _kinds() -> tuple[Kind, ...]:
    return find_kinds(["all"])


def _named(kind: Kind) -> str:
    off = "" if kind.is_default else " (off)"
    return f"{code(kind.name)} {'+' if kind.is_positive else '-'}{off}"


def _rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@cache
def _measurements() -> dict[str, dict[str, str]]:
    return {row["kind"]: row for row in _rows_of(MEASUREMENTS)}


@cache
def precisions() -> dict[str, Precision]:
    """By kind; kinds that nobody judged are left out."""
    cases: dict[str, list[EditCase]] = {}
    verdicts: tuple[dict[str, EditVerdict], dict[str, EditVerdict]] = ({}, {})
    signs = {kind.name: kind.is_positive for kind in _kinds()}
    for at, row in enumerate(_rows_of(JUDGEMENTS)):
        name = row["kind"]
        edit = Edit("", name, is_positive=signs[name])
        cases.setdefault(name, []).append(EditCase(str(at), row["caption"], "", edit))
        for reader, number in zip(verdicts, (1, 2), strict=True):
            truth, is_good = row[f"truth_{number}"], row[f"grammatical_{number}"] == "yes"
            reader[str(at)] = EditVerdict(cast("Truth", truth), is_good)
    return {name: precision_of(name, own, verdicts) for name, own in cases.items()}


def edit_kinds() -> str:
    """What each kind does, whose idea it is, and how many captions have a place for it."""
    rows = []
    for kind in _kinds():
        place = _measurements()[kind.name]["captions_with_a_place"]
        about = kind.about.replace("->", "→")
        rows.append((_named(kind), about, kind.source, f"{place} %" if place else ""))
    return table(("kind", "what it does", "idea", "captions with a place"), rows)


def edit_precision() -> str:
    """Percent of edits that are right, by two readers, and the leak."""
    rows = []
    for kind in _kinds():
        measured = _measurements()[kind.name]
        leak = ""
        if measured["pairs"]:
            leak = f"{measured['original_likelier']} / {measured['original_likelier_per_token']}"
            if int(measured["pairs"]) != USUAL_PAIRS:
                leak += f" (n={measured['pairs']})"
        found = precisions().get(kind.name)
        numbers = ["0", "not judged", "", "", ""]
        if found:
            right = with_interval(found.right, found.low, found.high)
            others = (found.meaning, found.grammar, found.agreement)
            numbers = [str(found.n), right, *map(number_text, others)]
        rows.append((_named(kind), *numbers, leak))
    head = ("kind", "n", "right", "meaning", "grammar", "readers agree", "original likelier")
    return table(head, rows)


def edit_agreement() -> str:
    """How far the two readers agree about all judged edits."""
    right: tuple[list[bool], list[bool]] = ([], [])
    signs = {kind.name: kind.is_positive for kind in _kinds()}
    for row in _rows_of(JUDGEMENTS):
        for number in (1, 2):
            verdict = EditVerdict(
                cast("Truth", row[f"truth_{number}"]), row[f"grammatical_{number}"] == "yes"
            )
            right[number - 1].append(is_right(signs[row["kind"]], verdict))
    count, same = len(right[0]), sum(a == b for a, b in zip(*right, strict=True))
    return (
        f"The readers agree about {number_text(same / count)} % of {count:,} edits; Cohen's "
        f"kappa is {kappa(*right):.2f}.\n"
    )


def edit_groups() -> str:
    """Groups by name; the paper's name alone is its published rule."""
    computed = {
        "default": "all kinds that are on",
        "negatives": "hard negatives that are on",
        "positives": "hard positives that are on",
        "all": "every kind",
    }
    rows = [(code(name), what) for name, what in computed.items()]
    rows += [(code(name), " ".join(map(code, kinds))) for name, kinds in GROUPS.items()]
    return table(("group", "kinds"), rows)


# --- recipes ------------------------------------------------------------------------------------


def _recipes() -> list[Recipe]:
    return [make_recipe(name) for name in names("recipe")]


def recipes() -> str:
    """Loss, edits and optimizer of each recipe."""
    rows = []
    for recipe in _recipes():
        changes = []
        if recipe.lora:
            changes.append(f"LoRA of rank {recipe.lora.rank}")
        changes += ["image encoder frozen"] if recipe.freeze.image == "all" else []
        changes += ["hard images"] if recipe.hard_images else []
        scale = recipe.max_logit_scale
        changes += [] if scale == 100 else [f"scale up to {scale:g}"]
        rows.append(
            (
                code(recipe.name),
                _loss(recipe),
                str(recipe.batch_size),
                f"{recipe.weight_decay:g}",
                ", ".join(changes),
            )
        )
    return table(("recipe", "loss", "batch size", "weight decay", "also"), rows)


def recipe_edits() -> str:
    """Columns of edits; recipes with the same columns share a row."""
    recipes_of: dict[tuple[str, Slot], list[str]] = {}
    for recipe in _recipes():
        for sign, slots in (("-", recipe.negatives), ("+", recipe.positives)):
            for slot in slots:
                recipes_of.setdefault((sign, slot), []).append(code(recipe.name))
    rows = (
        (", ".join(recipes), f"{slot.name} {sign}", " ".join(map(code, slot.kinds)))
        for (sign, slot), recipes in recipes_of.items()
    )
    return table(("recipe", "column", "kinds and groups"), rows)


def _loss(recipe: Recipe) -> str:
    terms = []
    for term in recipe.objective.terms:
        if not term.weight:
            continue
        bound = getattr(term.loss, "keywords", {})
        options = f" ({', '.join(code(value) for value in bound.values())})" if bound else ""
        weight = "" if term.weight == 1 else f"{term.weight:g} "
        terms.append(f"{weight}{code(term.name)}{options}")
    return " + ".join(terms)


def recipe_sources() -> str:
    """Where the numbers of each recipe are from."""
    return table(
        ("recipe", "source, and what differs"), ((code(r.name), r.source) for r in _recipes())
    )


_OF_RECIPES: Mapping[str, str] = MappingProxyType(
    {
        "neg_clip.hard_images": "false: NegCLIP's captions alone, without `--neighbours`",
        "svlc.with_positives": "adds rephrased captions (SVLC+Pos)",
        "hard_negative.family": "negatives that exchange words (`swap`), replace them, or both",
        "hard_negative.neg_in_contrastive": "negatives are in the denominator of the contrastive "
        "loss too, as in the released code",
        "hard_positive.negative": "weight of the loss of negatives, 0 to 1",
        "hard_positive.positive": "weight of the loss of positives, 0 to 1",
        "hard_positive.family": "edits that exchange words (`swap`), replace them, or both",
        "hard_positive.neg_in_contrastive": "as for `hard_negative`",
        "hard_positive.rephrases": "rephrased captions in place of hard positives: a control",
        "ce_clip.upper": "upper bound of the thresholds; none: no bound",
        "ce_clip.thresholds": "how thresholds move: `adaptive`, `largest`, `fixed`",
        "ce_clip.fixed": "the threshold with `thresholds=fixed`",
        "locked_image.sides": "captions with left and right exchanged as negatives",
    }
)
"""Arguments of recipes, by recipe and argument."""
_SAME_ARGUMENTS = {"ce_clip_fixed": "ce_clip"}


def recipe_arguments() -> str:
    """Settings that one recipe has and others have not."""
    rows = []
    for name in names("recipe"):
        function = cast("Callable[..., Recipe]", find("recipe", name))
        for key, parameter in inspect.signature(function).parameters.items():
            meaning = _OF_RECIPES[f"{_SAME_ARGUMENTS.get(name, name)}.{key}"]
            rows.append((code(name), code(key), code(typed(parameter.default)), meaning))
    return table(("recipe", "setting", "default", "meaning"), rows)


_OF_RECIPE: Mapping[str, str] = MappingProxyType(
    {
        "epochs": "passes over the pairs",
        "batch_size": "images of an optimizer step, over all processes",
        "learning_rate": "largest rate of AdamW",
        "weight_decay": "of AdamW",
        "betas": "of AdamW, as `betas=(0.9,0.98)`",
        "epsilon": "of AdamW",
        "warmup_steps": "steps of rising rate, before half a cosine to zero",
        "clip_norm": "largest norm of the gradient; none: no clipping",
        "max_logit_scale": "upper bound of the inverse temperature",
        "masks_equal": "captions with the same words as another image's are no negatives of it",
        "hard_images": "each image brings one of its nearest images; doubles the batch",
        "l2_to_init": "weight of the squared distance to the first weights",
        "freeze.image": "layers of the image encoder to freeze, from the input: a number, `part` "
        "(all but the last) or `all`",
        "freeze.text": "the same for the text encoder",
        "freeze.scale": "freeze temperature and bias",
        "lora.rank": "rank of LoRA; setting any part switches LoRA on, `lora=none` off",
        "lora.alpha": "scale of LoRA: alpha / rank",
        "lora.dropout": "dropout before LoRA's matrices",
        "distil": "weight of the loss `distil`, which any recipe can take",
    }
)


def recipe_settings() -> str:
    """Settings that every recipe has, with the defaults of `Recipe`."""
    defaults: dict[str, object] = {}
    for field in fields(Recipe):
        if field.name in ("name", "source", "objective", "negatives", "positives"):
            continue
        if field.name in ("freeze", "lora"):
            part = Freeze() if field.name == "freeze" else Lora()
            defaults |= {
                f"{field.name}.{one.name}": getattr(part, one.name) for one in fields(part)
            }
        else:
            defaults[field.name] = field.default
    defaults["distil"] = "off"
    assert set(defaults) == set(_OF_RECIPE), set(defaults) ^ set(_OF_RECIPE)
    defaults["lora.rank"] = "off"
    rows = [(code(key), code(typed(value)), _OF_RECIPE[key]) for key, value in defaults.items()]
    return table(("setting", "default", "meaning"), rows)


def losses() -> str:
    """Each loss with its line."""
    rows = (
        (f"[`{name}`](../background/losses.md#{name})", _about(found))
        for name, found in names("loss").items()
    )
    return table(("loss", "what it does"), rows)


def _about(name: Any) -> str:
    return str(name.about)


def typed(value: object) -> str:
    """A value as --set takes it."""
    if isinstance(value, tuple):
        return f"({','.join(map(typed, value))})"
    if isinstance(value, float):
        return re.sub(r"e-0(\d)", r"e-\1", f"{value:g}")
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


# --- read-outs ----------------------------------------------------------------------------------

_READS: Mapping[str, str] = MappingProxyType(
    {
        "joint": "patches and tokens in the joint space",
        "last-pooled": "one vector of the image, one of the caption",
        "last-whole": "patches before the projection, the caption's vector",
        "last": "patches and tokens before the projection",
        "last-padded": "the same, with padding",
    }
)
_PAGES: Mapping[str, str] = MappingProxyType(
    {
        "pooled": "../how-to/readouts.md",
        "dcsm": "../background/dcsm.md",
        "pacl": "../background/pacl.md",
        "sparc": "../background/sparc.md",
        "vlm2vec": "../background/vlm2vec.md",
        "decoder": "../background/decoder.md",
    }
)


def readouts() -> str:
    """Every read-out, what it reads, and its page."""
    rows = []
    for name, found in names("readout").items():
        family = name.partition("_")[0]
        readout = find_readout(name)
        if isinstance(readout, ReaderReadout):
            view = readout.view(readout.settings).name
            reads = _READS.get(view, "patches and tokens in the joint space")
        else:
            reads = "hidden states of a chat model" if family == "vlm2vec" else "patches"
        page = _PAGES.get(family, "")
        rows.append((code(name), found.about, reads, f"[{family}]({page})" if page else ""))
    return table(("read-out", "what it is", "what it reads", "background"), rows)


_SHARED: Mapping[str, str] = MappingProxyType(
    {
        "steps": "optimizer steps",
        "batch_size": "images of a step",
        "contrast_size": "images and captions that are contrasted with one another; each image "
        "also has its own negatives",
        "learning_rate": "largest rate of AdamW, before a cosine to zero",
        "warmup_steps": "steps of rising rate",
        "weight_decay": "of AdamW",
        "negatives": "use the hard negatives of the pairs",
        "scenes": "scenes to draw, with `--pairs world`",
        "opposites": "with `--pairs world`: draw pairs of opposite scenes in place of single ones",
    }
)
_ROPE = {
    "rope": "rotate patches by their place: `none`, `1d` (row by row, as released), `2d` (half "
    "of the channels by row, half by column)",
    "form": "order of the rotated channels: `concatenated` (as released) or `interleaved`",
}
_PROJECTED = {
    "width": "width of the learned space; 0: that of the caption vectors",
    "dropout": "before both projections",
    "temperature": "of the loss; not learned",
}
_OWN: Mapping[type, Mapping[str, str]] = MappingProxyType(
    {
        PooledSettings: {"width": "of the joint space and of the hidden layers"},
        DcsmSettings: {
            "align": "column that a functional word marks: its own tokens (`token`) or that of "
            "its number among the words (`word_index`, as released)",
            "norm": "a map is standardised over itself (`map`) or over all maps of a call "
            "(`batch`, as released)",
            "net": "`cnn` or `mlp`",
            "length": "columns of the map; longer captions are cut",
            "padding": "columns after the caption's end: the encoder's vectors (`kept`) or `zero`",
            "functional_words": "replace the columns of functional words",
            "learn_functional_rows": "train what replaces them",
            "dropout": "after each stage",
            "shuffle_patches": "control: `each` sorts the patches of an image by their vectors, "
            "`same` uses one random order for all images",
            "only": "control: keep the row of CLS (`cls`), the column of the end token (`eos`) or "
            "both (`cls_eos`)",
            "draws": "seed of the functional columns and of shuffled orders",
        },
        PaclSettings: {
            "pool": "weights when scoring: by the caption (`text`) or `uniform`",
            "taught": "weights in training: by the image's `own` caption, by the caption of "
            "`each` cell, or `uniform`",
            **_ROPE,
            "rope_at": "rotate before the projection (`input`) or after it, for the weights only "
            "(`weights`)",
            **_PROJECTED,
            "sharpness": "factor of the cosine in the sigmoid",
        },
        SparcSettings: {
            "padding": "padding counts as words in every mean, as released",
            "fallback": "even weights for a word that fits all patches alike; else it gathers "
            "nothing, as released",
            "whole": "weight of the loss of mean patches and mean words",
            "local": "weight of the loss of words and what they gather",
            "pairs": "weight of a loss of the score itself; ours",
            **_ROPE,
            **_PROJECTED,
        },
        Vlm2VecSettings: {
            "steps": "optimizer steps",
            "batch_size": "queries of a step (the paper: 4 x 64)",
            "chunk": "images or texts per forward pass; changes memory, not the gradient",
            "learning_rate": "largest rate, before a line to zero",
            "warmup_steps": "steps of rising rate",
            "temperature": "of the loss; not learned",
            "clip_norm": "largest norm of the gradient",
            "negatives": "hard negatives per caption as further targets",
            "lora": "rank of LoRA; 0 trains the whole language model",
            "alpha": "scale of LoRA",
            "dropout": "of LoRA",
            "dora": "DoRA in place of LoRA",
        },
        DecoderSettings: {
            "sees": "`patches`, `cls` (one token: the pooled vector) or `nothing`",
            "asks": "false: no questions; captions are answers to an empty prompt",
            "layer": "block of the image encoder: `second_last` (as LLaVA) or `last`",
            "language": "`scratch`, or a causal language model: a folder, a `.gguf` file, a name",
            "width": "of a language model from scratch",
            "depth": "its layers",
            "heads": "its attention heads",
            "context": "tokens of prompt and answer; longer questions are left out",
            "yes": "share of yes/no questions",
            "letters": "share of multiple choice",
            "describe": "share of captions",
            "answer": "share of short free answers",
            "prompts": "`published`: one wording a question; `all`: every wording",
            "scenes": "scenes to draw, with `--pairs world`",
            "blind": "share of steps without an image",
            "steps": "optimizer steps",
            "connector_steps": "first steps, with the language model frozen; none: a tenth for a "
            "pretrained one, 0 from scratch",
            "batch_size": "questions of a step",
            "learning_rate": "none: 2e-5 for a pretrained language model, 3e-4 from scratch",
            "connector_rate": "learning rate of the connector",
            "weight_decay": "of AdamW",
            "warmup_steps": "steps of rising rate, in each stage",
            "lora": "rank of LoRA on a pretrained language model; 0 trains all of it",
            "keeps": "precision of the stored features: `float32` or `float16`",
        },
    }
)


def settings_shared() -> str:
    """Settings that all readers share."""
    rows = [
        (code(one.name), code(typed(one.default)), _SHARED[one.name])
        for one in fields(ReaderEffort)
    ]
    return table(("setting", "default", "meaning"), rows)


def settings_of(kind: type) -> str:
    """Settings of a read-out's own; where its variants differ, one column for each."""
    variants = {
        name: found.settings
        for name in names("readout")
        if isinstance(found := find_readout(name), ReaderReadout) and type(found.settings) is kind
    } or {"": kind()}
    inherited = {one.name: one.default for one in fields(ReaderEffort)}
    rows = []
    for one in fields(kind):
        is_shared = issubclass(kind, ReaderEffort) and one.name in inherited
        if is_shared and one.default == inherited[one.name]:
            continue
        meaning = _SHARED[one.name] if is_shared else _OWN[kind][one.name]
        values = {name: typed(getattr(found, one.name)) for name, found in variants.items()}
        usual = typed(one.default)
        others = [f"{code(name)}: {code(v)}" for name, v in values.items() if v != usual]
        shown = code(usual) + (f" ({', '.join(others)})" if others else "")
        rows.append((code(one.name), shown, meaning))
    return table(("setting", "default", "meaning"), rows)


GENERATED: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "edit-kinds": edit_kinds,
        "edit-precision": edit_precision,
        "edit-agreement": edit_agreement,
        "edit-groups": edit_groups,
        "recipes": recipes,
        "recipe-edits": recipe_edits,
        "recipe-settings": recipe_settings,
        "recipe-arguments": recipe_arguments,
        "recipe-sources": recipe_sources,
        "losses": losses,
        "readouts": readouts,
        "readout-settings": settings_shared,
        "readout-settings-pooled": partial(settings_of, PooledSettings),
        "readout-settings-dcsm": partial(settings_of, DcsmSettings),
        "readout-settings-pacl": partial(settings_of, PaclSettings),
        "readout-settings-sparc": partial(settings_of, SparcSettings),
        "readout-settings-vlm2vec": partial(settings_of, Vlm2VecSettings),
        "readout-settings-decoder": partial(settings_of, DecoderSettings),
    }
)
