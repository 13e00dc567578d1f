"""From a name to the thing it names: our own, a plug-in's (entry point) or package.module:NAME."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from unbag.errors import UserError, unknown_name

Kind = Literal[
    "benchmark", "model", "scorer", "edit", "filter", "loss", "recipe", "probe", "tagger"
]
PLURALS: Mapping[str, Kind] = {
    "benchmarks": "benchmark",
    "models": "model",
    "scorers": "scorer",
    "edits": "edit",
    "filters": "filter",
    "losses": "loss",
    "recipes": "recipe",
    "probes": "probe",
    "taggers": "tagger",
}
"""As `unbag list` and the entry point groups (unbag.benchmarks ...) write the kinds."""

# Names of ours point at "module:attribute" and are imported only when asked for, so that listing
# names stays instant. A plug-in declares the same in its entry points, in the groups of PLURALS.
_OURS: Mapping[Kind, Mapping[str, str]] = {
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
        "aro_order_coco": "unbag.benchmarks.aro_order:ARO_ORDER_COCO",
        "aro_order_flickr30k": "unbag.benchmarks.aro_order:ARO_ORDER_FLICKR30K",
        "crepe": "unbag.benchmarks.crepe:CREPE",
        "whatsup_a": "unbag.benchmarks.whatsup:WHATSUP_A",
        "whatsup_b": "unbag.benchmarks.whatsup:WHATSUP_B",
        "coco_spatial": "unbag.benchmarks.spatial:COCO_SPATIAL",
        "gqa_spatial": "unbag.benchmarks.spatial:GQA_SPATIAL",
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
        "coco_order_free": "unbag.benchmarks.order_free:COCO_ORDER_FREE",
        "flickr30k_order_free": "unbag.benchmarks.order_free:FLICKR30K_ORDER_FREE",
        "coco_retrieval": "unbag.benchmarks.retrieval:COCO_RETRIEVAL",
        "flickr30k_retrieval": "unbag.benchmarks.retrieval:FLICKR30K_RETRIEVAL",
        "flickr8k": "unbag.benchmarks.flickr8k:FLICKR8K",
        "flickr8k_crowd": "unbag.benchmarks.flickr8k:FLICKR8K_CROWD",
        "imagenet1k": "unbag.benchmarks.imagenet:IMAGENET1K",
        "cifar10": "unbag.benchmarks.cifar:CIFAR10",
        "cifar100": "unbag.benchmarks.cifar:CIFAR100",
        "caltech101": "unbag.benchmarks.class_sets:CALTECH101",
        "food101": "unbag.benchmarks.class_sets:FOOD101",
        "flowers102": "unbag.benchmarks.class_sets:FLOWERS102",
        "pets": "unbag.benchmarks.class_sets:PETS",
        "cars": "unbag.benchmarks.class_sets:CARS",
        "aircraft": "unbag.benchmarks.class_sets:AIRCRAFT",
        "dtd": "unbag.benchmarks.class_sets:DTD",
        "sun397": "unbag.benchmarks.class_sets:SUN397",
        "stl10": "unbag.benchmarks.class_sets:STL10",
        "mnist": "unbag.benchmarks.class_sets:MNIST",
        "svhn": "unbag.benchmarks.class_sets:SVHN",
        "gtsrb": "unbag.benchmarks.class_sets:GTSRB",
        "eurosat": "unbag.benchmarks.class_sets:EUROSAT",
        "resisc45": "unbag.benchmarks.class_sets:RESISC45",
        "country211": "unbag.benchmarks.class_sets:COUNTRY211",
        "rendered_sst2": "unbag.benchmarks.class_sets:RENDERED_SST2",
        "fer2013": "unbag.benchmarks.class_sets:FER2013",
        "pcam": "unbag.benchmarks.class_sets:PCAM",
    },
    "model": {
        "tiny": "unbag.models.tiny:load",
        "open_clip": "unbag.models.open_clip:load",
        "caption": "unbag.models.caption_only:load",
        "hf": "unbag.models.hf:load",
        "oracle": "unbag.world.oracles:load",
        "server": "unbag.models.server:load",
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
        "swap_nouns": "unbag.captions.swaps:SWAP_NOUNS",
        "swap_adjectives": "unbag.captions.attribute_swaps:SWAP_ADJECTIVES",
        "swap_verbs": "unbag.captions.verb_swaps:SWAP_VERBS",
        "swap_adverbs": "unbag.captions.verb_swaps:SWAP_ADVERBS",
        "swap_phrases": "unbag.captions.swaps:SWAP_PHRASES",
        "swap_words": "unbag.captions.word_swaps:SWAP_WORDS",
        "neg_clip_swap": "unbag.captions.published_swaps:NEG_CLIP_SWAP",
        "swap_arguments": "unbag.captions.swaps:SWAP_ARGUMENTS",
        "swap_attributes": "unbag.captions.attribute_swaps:SWAP_ATTRIBUTES",
        "negate": "unbag.captions.negate:NEGATE",
        "replace_colour": "unbag.captions.replace:REPLACE_COLOUR",
        "replace_material": "unbag.captions.replace:REPLACE_MATERIAL",
        "replace_size": "unbag.captions.replace:REPLACE_SIZE",
        "replace_state": "unbag.captions.replace:REPLACE_STATE",
        "replace_action": "unbag.captions.replace_action:REPLACE_ACTION",
        "left_right": "unbag.captions.spatial:LEFT_RIGHT",
        "above_below": "unbag.captions.spatial_vertical:ABOVE_BELOW",
        "front_behind": "unbag.captions.spatial:FRONT_BEHIND",
        "inside_outside": "unbag.captions.spatial_range:INSIDE_OUTSIDE",
        "near_far": "unbag.captions.spatial_range:NEAR_FAR",
        "replace_number": "unbag.captions.numbers:REPLACE_NUMBER",
        "replace_quantifier": "unbag.captions.quantifiers:REPLACE_QUANTIFIER",
        "antonym": "unbag.captions.wordnet_antonyms:ANTONYM",
        "replace_noun": "unbag.captions.wordnet_edits:REPLACE_NOUN",
        "replace_attribute": "unbag.captions.replace_relation:REPLACE_ATTRIBUTE",
        "replace_relation": "unbag.captions.replace_relation:REPLACE_RELATION",
        "fill_attribute": "unbag.captions.fills:FILL_ATTRIBUTE",
        "fill_object": "unbag.captions.fills:FILL_OBJECT",
        "fill_action": "unbag.captions.fills:FILL_ACTION",
        "fill_relation": "unbag.captions.fills:FILL_RELATION",
        "rewrite_replace": "unbag.captions.rewrites:REWRITE_REPLACE",
        "rewrite_swap": "unbag.captions.rewrites:REWRITE_SWAP",
        "synonym": "unbag.captions.positives_synonym:SYNONYM",
        "conjunct_swap": "unbag.captions.positives_conjunct:CONJUNCT_SWAP",
        "relation_inverse": "unbag.captions.positives_inverse:RELATION_INVERSE",
        "passive": "unbag.captions.positives_passive:PASSIVE",
        "article": "unbag.captions.positives_article:ARTICLE",
        "word_form": "unbag.captions.positives_form:WORD_FORM",
        "synonym_wordnet": "unbag.captions.positives_wordnet:SYNONYM_WORDNET",
    },
    "filter": {
        "fluency": "unbag.captions.filters_model:load_fluency",
        "meaning": "unbag.captions.filters_model:load_meaning",
    },
    "loss": {"contrastive": "unbag.losses.contrastive:contrastive"},
}

# One line for `unbag list`; written here because importing a model to ask it is slow.
ABOUT: Mapping[str, str] = {
    "tiny": "tiny:base (shipped), tiny:random (its untrained twin), tiny:FILE.safetensors",
    "open_clip": "open_clip:ARCH/TAG, open_clip:ARCH@PATH: any dual encoder of OpenCLIP",
    "caption": "blind: caption:short, :long, :constant, :random, :likelihood:PATH, :sentence:PATH",
    "hf": "hf:FOLDER, hf:OWNER/NAME[@REVISION]: CLIP, SigLIP, ALIGN, BLIP matching, chat models",
    "oracle": "oracle:semantic, oracle:bag-of-words, oracle:blind: exact, on world-* only",
    "server": "server:MODEL@URL: a chat model behind an OpenAI-compatible server",
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
}


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
    found = {name: Name(name, to, "unbag") for name, to in _OURS.get(kind, {}).items()}
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
