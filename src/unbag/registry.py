"""From a name to the thing it names: our own, a plug-in's (entry point) or package.module:NAME."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from unbag.errors import UserError, unknown_name

if TYPE_CHECKING:
    import argparse

# Our own names of benchmarks, models, scorers, edits, losses and recipes, and what they name.

Kind = Literal[
    "benchmark",
    "model",
    "scorer",
    "edit",
    "filter",
    "loss",
    "recipe",
    "readout",
    "probe",
    "tagger",
]

# Names of ours point at "module:attribute" and are imported only when asked for, so that listing
# names stays instant. A plug-in declares the same in its entry points, in the groups of PLURALS.
OURS: Mapping[Kind, Mapping[str, str]] = {
    "benchmark": {
        "world-swap": "unbag.world.benchmarks:SWAP",
        "world-replace": "unbag.world.benchmarks:REPLACE",
        "world-relation": "unbag.world.benchmarks:RELATION",
        "world-order": "unbag.world.benchmarks:ORDER",
        "world-pairs-a": "unbag.world.benchmarks:PAIRS_A",
        "world-pairs-b": "unbag.world.benchmarks:PAIRS_B",
        "world-binding": "unbag.world.benchmarks:BINDING",
        "world-count": "unbag.world.benchmarks:COUNT",
        "world-texture": "unbag.world.benchmarks:TEXTURE",
        "world-negation": "unbag.world.benchmarks:NEGATION",
        "world-retrieval": "unbag.world.benchmarks:RETRIEVAL",
        "sugarcrepe": "unbag.benchmarks.sugarcrepe:SUGARCREPE",
        "sugarcrepe_pp": "unbag.benchmarks.sugarcrepe_pp:SUGARCREPE_PP",
        "valse": "unbag.benchmarks.valse:VALSE",
        "vl_checklist": "unbag.benchmarks.vl_checklist:VL_CHECKLIST",
        "hard_positive_replace": "unbag.benchmarks.hard_positives:REPLACE",
        "hard_positive_swap": "unbag.benchmarks.hard_positives:SWAP",
        "aro_relation": "unbag.benchmarks.aro:ARO_RELATION",
        "aro_attribution": "unbag.benchmarks.aro:ARO_ATTRIBUTION",
        "aro_order_coco": "unbag.benchmarks.aro:ARO_ORDER_COCO",
        "aro_order_flickr30k": "unbag.benchmarks.aro:ARO_ORDER_FLICKR30K",
        "crepe": "unbag.benchmarks.crepe:CREPE",
        "whatsup_a": "unbag.benchmarks.whatsup:WHATSUP_A",
        "whatsup_b": "unbag.benchmarks.whatsup:WHATSUP_B",
        "coco_spatial": "unbag.benchmarks.whatsup:COCO_SPATIAL",
        "gqa_spatial": "unbag.benchmarks.whatsup:GQA_SPATIAL",
        "mmvp": "unbag.benchmarks.mmvp:MMVP",
        "mmvp_vlm": "unbag.benchmarks.mmvp:MMVP_VLM",
        "winoground": "unbag.benchmarks.winoground:WINOGROUND",
        "naturalbench": "unbag.benchmarks.naturalbench:NATURALBENCH",
        "vsr": "unbag.benchmarks.vsr:VSR",
        "colorswap": "unbag.benchmarks.colorswap:COLORSWAP",
        "naturalbench_retrieval": "unbag.benchmarks.naturalbench_retrieval:NATURALBENCH_RETRIEVAL",
        "bivlc": "unbag.benchmarks.bivlc:BIVLC",
        "eqben": "unbag.benchmarks.eqben:EQBEN",
        "cola": "unbag.benchmarks.cola:COLA",
        "svo_probes": "unbag.benchmarks.svo_probes:SVO_PROBES",
        "coco_order_free": "unbag.benchmarks.retrieval:COCO_ORDER_FREE",
        "flickr30k_order_free": "unbag.benchmarks.retrieval:FLICKR30K_ORDER_FREE",
        "coco_retrieval": "unbag.benchmarks.retrieval:COCO_RETRIEVAL",
        "flickr30k_retrieval": "unbag.benchmarks.retrieval:FLICKR30K_RETRIEVAL",
        "flickr8k": "unbag.benchmarks.flickr8k:FLICKR8K",
        "flickr8k_crowd": "unbag.benchmarks.flickr8k:FLICKR8K_CROWD",
        "imagenet1k": "unbag.benchmarks.classification.datasets:IMAGENET1K",
        "cifar10": "unbag.benchmarks.classification.datasets:CIFAR10",
        "cifar100": "unbag.benchmarks.classification.datasets:CIFAR100",
        "caltech101": "unbag.benchmarks.classification.datasets:CALTECH101",
        "food101": "unbag.benchmarks.classification.datasets:FOOD101",
        "flowers102": "unbag.benchmarks.classification.datasets:FLOWERS102",
        "pets": "unbag.benchmarks.classification.datasets:PETS",
        "cars": "unbag.benchmarks.classification.datasets:CARS",
        "aircraft": "unbag.benchmarks.classification.datasets:AIRCRAFT",
        "dtd": "unbag.benchmarks.classification.datasets:DTD",
        "sun397": "unbag.benchmarks.classification.datasets:SUN397",
        "stl10": "unbag.benchmarks.classification.datasets:STL10",
        "mnist": "unbag.benchmarks.classification.datasets:MNIST",
        "svhn": "unbag.benchmarks.classification.datasets:SVHN",
        "gtsrb": "unbag.benchmarks.classification.datasets:GTSRB",
        "eurosat": "unbag.benchmarks.classification.datasets:EUROSAT",
        "resisc45": "unbag.benchmarks.classification.datasets:RESISC45",
        "country211": "unbag.benchmarks.classification.datasets:COUNTRY211",
        "rendered_sst2": "unbag.benchmarks.classification.datasets:RENDERED_SST2",
        "fer2013": "unbag.benchmarks.classification.datasets:FER2013",
        "pcam": "unbag.benchmarks.classification.datasets:PCAM",
    },
    "model": {
        "tiny": "unbag.models.tiny:load",
        "open_clip": "unbag.models.open_clip.loading:load",
        "caption": "unbag.models.baselines:load",
        "hf": "unbag.models.huggingface.loading:load",
        "joined": "unbag.models.joined:load",
        "oracle": "unbag.world.oracles:load",
        "photo": "unbag.models.photo:load",
        "server": "unbag.models.server:load",
        "decoder": "unbag.readouts.decoder.readout:load",
        "vlm2vec": "unbag.readouts.vlm2vec.readout:load_encoder",
    },
    "scorer": {
        "cosine": "unbag.scorers.cosine:Cosine",
        "match": "unbag.scorers.resolve:match_head",
        "linear-probe": "unbag.scorers.linear_probe:untrained",
        "yes": "unbag.scorers.chat:YES",
        "yes-normalised": "unbag.scorers.chat:YES_NORMALISED",
        "yes-contrast": "unbag.scorers.chat:YES_CONTRAST",
        "letters": "unbag.scorers.chat:LETTERS",
        "perplexity": "unbag.scorers.chat:PERPLEXITY",
        "likelihood": "unbag.scorers.chat:LIKELIHOOD",
        "answer": "unbag.scorers.chat:ANSWER",
        "m3id": "unbag.scorers.chat:M3ID_ANSWER",
    },
    "edit": {
        "swap_nouns": "unbag.edits.negatives.swaps:SWAP_NOUNS",
        "swap_adjectives": "unbag.edits.negatives.modifiers:SWAP_ADJECTIVES",
        "swap_verbs": "unbag.edits.negatives.modifiers:SWAP_VERBS",
        "swap_adverbs": "unbag.edits.negatives.modifiers:SWAP_ADVERBS",
        "swap_phrases": "unbag.edits.negatives.swaps:SWAP_PHRASES",
        "swap_words": "unbag.edits.negatives.swaps:SWAP_WORDS",
        "neg_clip_swap": "unbag.edits.negatives.swaps:NEG_CLIP_SWAP",
        "swap_arguments": "unbag.edits.negatives.swaps:SWAP_ARGUMENTS",
        "swap_attributes": "unbag.edits.negatives.modifiers:SWAP_ATTRIBUTES",
        "negate": "unbag.edits.negatives.numbers:NEGATE",
        "replace_colour": "unbag.edits.negatives.replace:REPLACE_COLOUR",
        "replace_material": "unbag.edits.negatives.replace:REPLACE_MATERIAL",
        "replace_size": "unbag.edits.negatives.replace:REPLACE_SIZE",
        "replace_state": "unbag.edits.negatives.replace:REPLACE_STATE",
        "replace_action": "unbag.edits.negatives.replace:REPLACE_ACTION",
        "left_right": "unbag.edits.negatives.spatial:LEFT_RIGHT",
        "above_below": "unbag.edits.negatives.spatial:ABOVE_BELOW",
        "front_behind": "unbag.edits.negatives.spatial:FRONT_BEHIND",
        "inside_outside": "unbag.edits.negatives.spatial:INSIDE_OUTSIDE",
        "near_far": "unbag.edits.negatives.spatial:NEAR_FAR",
        "replace_number": "unbag.edits.negatives.numbers:REPLACE_NUMBER",
        "replace_quantifier": "unbag.edits.negatives.numbers:REPLACE_QUANTIFIER",
        "antonym": "unbag.edits.negatives.wordnet:ANTONYM",
        "replace_noun": "unbag.edits.negatives.wordnet:REPLACE_NOUN",
        "replace_attribute": "unbag.edits.negatives.replace:REPLACE_ATTRIBUTE",
        "replace_relation": "unbag.edits.negatives.replace:REPLACE_RELATION",
        "fill_attribute": "unbag.edits.generated.fills:FILL_ATTRIBUTE",
        "fill_object": "unbag.edits.generated.fills:FILL_OBJECT",
        "fill_action": "unbag.edits.generated.fills:FILL_ACTION",
        "fill_relation": "unbag.edits.generated.fills:FILL_RELATION",
        "rewrite_replace": "unbag.edits.generated.rewrites:REWRITE_REPLACE",
        "rewrite_swap": "unbag.edits.generated.rewrites:REWRITE_SWAP",
        "synonym": "unbag.edits.positives.synonyms:SYNONYM",
        "conjunct_swap": "unbag.edits.positives.reorder:CONJUNCT_SWAP",
        "relation_inverse": "unbag.edits.positives.reorder:RELATION_INVERSE",
        "passive": "unbag.edits.positives.passives:PASSIVE",
        "article": "unbag.edits.positives.word_forms:ARTICLE",
        "word_form": "unbag.edits.positives.word_forms:WORD_FORM",
        "synonym_wordnet": "unbag.edits.positives.wordnet:SYNONYM_WORDNET",
    },
    "filter": {
        "fluency": "unbag.edits.filters:load_fluency",
        "meaning": "unbag.edits.filters:load_meaning",
    },
    "loss": {
        "contrastive": "unbag.training.losses:contrastive",
        "contrastive_negatives": "unbag.training.losses:contrastive_negatives",
        "svlc_negative": "unbag.training.losses:svlc_negative",
        "svlc_positive": "unbag.training.losses:svlc_positive",
        "intra_modal": "unbag.training.losses:intra_modal",
        "rank": "unbag.training.losses:rank",
        "sigmoid": "unbag.training.losses:sigmoid",
        "triple_margin": "unbag.training.losses:triple_margin",
        "distil": "unbag.training.losses:distil",
    },
    "recipe": {
        "clip_ft": "unbag.training.recipes:clip_ft",
        "neg_clip": "unbag.training.recipes:neg_clip",
        "svlc": "unbag.training.recipes:svlc",
        "hard_negative": "unbag.training.recipes:hard_negative",
        "hard_positive": "unbag.training.recipes:hard_positive",
        "ce_clip": "unbag.training.recipes:ce_clip",
        "ce_clip_fixed": "unbag.training.recipes:ce_clip_fixed",
        "locked_image": "unbag.training.recipes:locked_image",
        "siglip_hn": "unbag.training.recipes:siglip_hn",
    },
    "readout": {
        "pooled": "unbag.readouts.pooled:POOLED",
        "dcsm": "unbag.readouts.dcsm:DCSM",
        "dcsm_fixed": "unbag.readouts.dcsm:DCSM_FIXED",
        "pacl": "unbag.readouts.pacl:PACL",
        "pacl_uniform": "unbag.readouts.pacl:PACL_UNIFORM",
        "pacl_fixed": "unbag.readouts.pacl:PACL_FIXED",
        "pacl_rotary": "unbag.readouts.pacl:PACL_ROTARY",
        "sparc": "unbag.readouts.sparc:SPARC",
        "sparc_fixed": "unbag.readouts.sparc:SPARC_FIXED",
        "vlm2vec": "unbag.readouts.vlm2vec.readout:VLM2VEC",
        "vlm2vec_plain": "unbag.readouts.vlm2vec.readout:VLM2VEC_PLAIN",
        "decoder": "unbag.readouts.decoder.readout:DECODER",
    },
    "probe": {
        "order": "unbag.probes.order:ORDER",
        "sensitivity": "unbag.probes.sensitivity:SENSITIVITY",
        "stability": "unbag.probes.stability:STABILITY",
        "profile": "unbag.probes.profile:PROFILE",
        "transplant": "unbag.probes.transplant:TRANSPLANT",
        "agreement": "unbag.probes.agreement:AGREEMENT",
        "extract": "unbag.probes.extract:EXTRACT",
        "extract_text": "unbag.probes.extract:EXTRACT_TEXT",
        "conditions": "unbag.probes.conditions:CONDITIONS_PROBE",
        "superposition": "unbag.probes.superposition:SUPERPOSITION",
        "prior": "unbag.probes.chat:PRIOR",
        "yes_bias": "unbag.probes.chat:YES_BIAS",
    },
}

# One line about each registered name, for `unbag list`.

# Written here because importing a model to ask it is slow.
ABOUT: Mapping[str, str] = {
    "order": "does the text tower see order? shuffled words and pictures, swaps",
    "extract": "is the answer in the picture features? readers of vectors, patches and layers",
    "extract_text": "are order, binding and negation in the text vector and its words?",
    "sensitivity": "did it learn meaning, or only to notice edits?",
    "stability": "how little turns its preferences: angle, noise, rounding",
    "agreement": "different pictures that the picture tower takes for the same",
    "conditions": "twelve conditions of an ideal space: names, colours, binding, places, negation",
    "superposition": "whether the vector of two things is the sum of their vectors; the cone",
    "dcsm": "DCSM as released: a network over cosines of all patches with all tokens",
    "dcsm_fixed": "the same, words marked at their tokens, scores free of the other candidates",
    "pacl": "PACL: patches pooled by how they fit the caption; as released",
    "pacl_uniform": "any PACL scored with even weights, as the released code tests it",
    "pacl_fixed": "PACL trained with the score that is tested",
    "pacl_rotary": "PACL with patches turned by their place, so that a sum knows places",
    "sparc": "SPARC: each word gathers its patches; as released, padding counted",
    "sparc_fixed": "the same without padding, and with a way out for equal patches",
    "vlm2vec": "VLM2Vec: vectors from a chat model, asked; as a model vlm2vec:hf:FOLDER, not asked",
    "vlm2vec_plain": "the same read-out without the question in the prompt",
    "clip_ft": "plain fine-tuning on the same captions, the control",
    "neg_clip": "NegCLIP: words exchanged, in the denominator; pictures that are alike",
    "svlc": "SVLC: words replaced by rules, LoRA",
    "hard_negative": "one hard negative a caption (HN)",
    "hard_positive": "one hard negative and one hard positive a caption (HP+HN)",
    "ce_clip": "CE-CLIP as printed: contrast within captions, ranks with thresholds",
    "ce_clip_fixed": "the same with its two mistakes mended; use this one",
    "locked_image": "the picture tower locked, the caption tower trained",
    "siglip_hn": "SigLIP's loss with hard negatives",
    "tiny": "tiny:base; repaired: tiny:hard_negative, :ce_clip_fixed; tiny:random; tiny:FILE",
    "open_clip": "open_clip:ARCH/TAG, open_clip:ARCH@PATH: any dual encoder of OpenCLIP",
    "caption": "blind: caption:short, :long, :constant, :random, :likelihood:PATH, :sentence:PATH",
    "hf": "hf:FOLDER, hf:OWNER/NAME[@REVISION]: CLIP, SigLIP, ALIGN, BLIP matching, chat models",
    "joined": "joined:PICTURE+TEXT: a picture tower, another text model; minilm, smollm2, FOLDER",
    "oracle": "oracle:semantic, oracle:bag-of-words, oracle:blind: exact, on world-* only",
    "photo": "photo:mini, photo:random, photo:FILE: EfficientNet-Lite0 and MiniLM with heads",
    "server": "server:MODEL@URL: a chat model behind an OpenAI-compatible server",
    "decoder": "decoder@FOLDER, decoder:FOLDER: a language model on frozen patches, of our own",
    "cosine": "cosine of picture and caption vector, for every dual encoder",
    "match": "the matching head of BLIP and BLIP-2, which is their own way to score",
    "linear-probe": "classes by logistic regression on picture vectors, fitted to a training split",
    "yes": "chat models: probability of Yes to a question about the caption (VQAScore)",
    "yes-normalised": "the same, divided by the sum of Yes and No",
    "yes-contrast": "log-probability of Yes with the picture minus that without it",
    "letters": "chat models: multiple choice by letter, each option at every letter once",
    "perplexity": "chat models: probability of the caption as the answer, averaged over its tokens",
    "likelihood": "the same, summed over the tokens; prefers short captions",
    "answer": "chat models: a free answer, read by keywords",
    "m3id": "the same, decoded against the language prior (M3ID)",
    "fill_attribute": "negative, CE-CLIP: an adjective that a language model chose (--fill)",
    "fill_object": "negative, CE-CLIP: a noun that a language model chose (--fill)",
    "fill_action": "negative, CE-CLIP: a verb that a language model chose (--fill)",
    "fill_relation": "negative, SVLC: a preposition that a language model chose (--fill)",
    "rewrite_replace": "positive: a chat model replaces a word by a synonym (--rewrite)",
    "rewrite_swap": "positive: a chat model exchanges what is joined by and (--rewrite)",
    "fluency": "fluency:PATH: edits that a language model finds unlikely are rejected",
    "meaning": "meaning:PATH: positives that a sentence encoder finds far off are rejected",
    "left_right": "negative: a cup on the left of a plate -> a cup on the right of a plate",
    "above_below": "negative: above and below, top and bottom, over and under, up and down",
    "front_behind": "negative: in front of and behind, foreground and background, front and back",
    "inside_outside": "negative: inside and outside, into and out of, indoors and outdoors",
    "near_far": "negative: near and far from, next to, towards and away from",
    "replace_number": "negative: a larger number: two dogs on a sofa -> four dogs on a sofa",
    "replace_quantifier": "negative: many, some, no, all, both by what contradicts them",
    "antonym": "negative, WordNet: the contrary of an adjective, verb or adverb",
    "replace_noun": "negative, CREPE: another thing of the same sort, checked with WordNet",
    "replace_attribute": "negative, CREPE: another colour, material, size or state",
    "replace_relation": "negative, CREPE: a preposition or verb that excludes the old one",
    "synonym": "positive: a word by a synonym: a cat under a sofa -> a cat beneath a sofa",
    "conjunct_swap": "positive: what and joins, turned: a dog and a cat -> a cat and a dog",
    "relation_inverse": "positive: from the other end: a lamp above a desk -> a desk below a lamp",
    "passive": "positive: active or passive: a dog chases a cat -> a cat is chased by a dog",
    "article": "positive: another article: a dog on a bench -> the dog on a bench",
    "word_form": "positive: another form: two dogs are running -> two dogs run, 2 dogs",
    "synonym_wordnet": "positive: a word by a synonym of WordNet: a large couch -> a large sofa",
    "contrastive": "CLIP's loss: matching pairs above all others of the batch",
    "contrastive_negatives": "NegCLIP's: the same, with hard negatives among the captions",
    "svlc_negative": "SVLC: a caption above the hard negatives of its own",
    "svlc_positive": "SVLC, hard positives: picture and caption find the positive in the batch",
    "intra_modal": "CE-CLIP: a caption far from its own hard negatives",
    "rank": "CE-CLIP: a caption above each hard negative by an adaptive margin",
    "sigmoid": "SigLIP's loss, with hard negatives as further captions",
    "triple_margin": "ours: a caption and its hard positives above its hard negatives",
    "distil": "keeps what fits what as the starting weights had it",
    "profile": "relations and bindings on the world, by relation, distance, size, objects",
    "transplant": "towers and read-outs of two models combined: which part was repaired?",
    "swap_nouns": "negative, NegCLIP: two nouns change places",
    "swap_adjectives": "negative, NegCLIP: adjectives of two nouns change places",
    "swap_verbs": "negative, NegCLIP: two verbs of one form change places",
    "swap_adverbs": "negative, NegCLIP: two adverbs change places",
    "swap_phrases": "negative, NegCLIP: two noun phrases change places, verbs agree",
    "swap_words": "negative, NegCLIP: two single nouns change places, parts of compounds too",
    "neg_clip_swap": "negative, NegCLIP as published: any two words of a class, unchecked",
    "swap_arguments": "negative, CREPE: subject and object of a relation change places",
    "swap_attributes": "negative, CREPE: all adjectives of two nouns change places",
    "negate": "negative, CREPE: a negation at a predicate or an object",
    "replace_colour": "negative, SVLC: another colour",
    "replace_material": "negative, SVLC: another material",
    "replace_size": "negative, SVLC: the contrary size",
    "replace_state": "negative, SVLC: a state, age, pattern or shape that excludes it",
    "replace_action": "negative, SVLC: a verb that excludes it, in the same form",
    "pooled": "the control of every reader: one pooled vector each, trained likewise",
    "prior": "chat models: how much of a choice is the same without the picture",
    "yes_bias": "chat models: what they say yes to; relaxed against strict pairs",
}

__all__ = [
    "ABOUT",
    "PLURALS",
    "Command",
    "Kind",
    "Name",
    "find",
    "load_command",
    "names",
    "plugin_commands",
    "weight_folders",
]

PLURALS: Mapping[str, Kind] = {
    "benchmarks": "benchmark",
    "models": "model",
    "scorers": "scorer",
    "edits": "edit",
    "filters": "filter",
    "losses": "loss",
    "recipes": "recipe",
    "readouts": "readout",
    "probes": "probe",
    "taggers": "tagger",
}
"""As `unbag list` and the entry point groups (unbag.benchmarks ...) write the kinds."""


@dataclass(frozen=True)
class Name:
    """A registered name and where it comes from."""

    name: str
    target: str
    """module:attribute"""
    origin: str
    """"unbag", or the distribution of the plug-in."""


def names(kind: Kind) -> dict[str, Name]:
    """Every registered name of a kind, ours first; nothing is imported."""
    found = {name: Name(name, to, "unbag") for name, to in OURS.get(kind, {}).items()}
    for point in _plugins(kind):
        origin = point.dist.name if point.dist else "a plug-in"
        if point.name in found:
            raise UserError(
                f"{origin} registers the {kind} {point.name!r} of {found[point.name].origin} again",
                expected="a name nobody else uses",
                way_out=f"rename it in the entry points of {origin}, or uninstall that package",
            )
        found[point.name] = Name(point.name, point.value, origin)
    return found


def find(kind: Kind, name: str) -> object:
    """The thing called `name`, or the attribute that package.module:NAME points at."""
    known = names(kind)
    if name in known:
        return _import(known[name].target, kind, name)
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        return _import(name, kind, name)
    raise unknown_name(kind, name, known)


@cache
def _plugins(kind: Kind) -> tuple[EntryPoint, ...]:
    plural = next(many for many, one in PLURALS.items() if one == kind)
    return tuple(entry_points(group=f"unbag.{plural}"))


def _import(target: str, kind: Kind, name: str) -> object:
    module_name, _, path = target.partition(":")
    try:
        thing: object = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise UserError(
                f"the {kind} {name!r} needs the package {error.name!r}, which is not installed",
                way_out=f"install it, or the extra of unbag that brings it ({error})",
            ) from error
        raise unknown_name(kind, name, names(kind)) from error
    for attribute in path.split("."):
        if not hasattr(thing, attribute):
            raise UserError(
                f"the {kind} {name!r}: module {module_name!r} has no {attribute!r}",
                expected=f"one of its public names: {', '.join(_public(thing))}",
            )
        thing = getattr(thing, attribute)
    return thing


def _public(thing: object) -> list[str]:
    return sorted(n for n in vars(thing) if not n.startswith("_"))[:12]


class Command(Protocol):
    """A module that adds a command to the command line."""

    def add(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> object:
        """Declare the command and its options."""
        ...

    def start(self, options: argparse.Namespace) -> int:
        """Run it; gives the exit code."""
        ...


_STUDY = {"lab": "published claims, run on the world, with verdicts"}
"""Commands of our own that are installed apart, listed whether they are there or not."""


@cache
def plugin_commands() -> dict[str, str]:
    """Commands of the entry-point group `unbag.commands` with one line about each."""
    found = dict(_STUDY)
    for point in entry_points(group="unbag.commands"):
        about = point.dist.metadata["Summary"] if point.dist else None
        found.setdefault(point.name, about or f"from {point.value.partition('.')[0]}")
    return found


def load_command(name: str) -> Command:
    """Import the module of a plug-in command; only the one that is called is imported."""
    for point in entry_points(group="unbag.commands", name=name):
        module: Command = point.load()
        return module
    raise UserError(
        f"`unbag {name}` is the command of a distribution that is not installed: unbag-{name}",
        way_out=f"in a clone of unbag: pip install ./{name}",
    )


def weight_folders() -> tuple[Path, ...]:
    """Where shipped weights lie: our own, and packages of the entry-point group `unbag.weights`."""
    folders = [Path(__file__).parent / "models" / "weights"]
    for point in entry_points(group="unbag.weights"):
        spec = find_spec(point.value)
        folders += [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    return tuple(folders)
