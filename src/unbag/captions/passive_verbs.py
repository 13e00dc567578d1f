"""Verbs whose passive sounds right in a caption, and what their objects may be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from unbag.captions.agreement import inflected
from unbag.captions.word_lists import word_set

_VERBS = """
approach assemble attack balance bite block board bounce brush build carry catch chase chew clean
climb cook cover cut decorate devour drag dribble drive drop eat embrace escort examine feed fill
film fix fly follow fold gather grab grasp greet groom guard guide haul herd hit hold hug
hunt inspect juggle kick kiss lead lick lift light line load lug mount mow observe open operate
overlook paint pat pedal perform pet photograph pick pilot play pull push race raise read repair
ride roast roll row scrub sell shake share shear slice smell smoke sniff steer strike stroke
surround sweep swing tackle throw toss touch tow trim use wash watch water wear wheel wipe
walk tend shoot stack smash chop bake prepare take do make attach unload serve
"""
_OF = """
take: picture photo photograph selfie pictures photos photographs
do: trick stunt flip handstand cartwheel tricks stunts flips
make: pizza sandwich cake meal food dinner salad pizzas sandwiches cookies soup
perform: trick stunt flip handstand cartwheel tricks stunts flips show song
play: guitar piano violin drum drums accordion saxophone trumpet flute tennis soccer baseball \
football basketball frisbee volleyball hockey rugby golf cricket games game
wear: hat hats helmet helmets costume costumes uniform uniforms sunglasses suit suits dress dresses
walk: dog dogs horse horses
water: plant plants flower flowers lawn garden
light: candle candles
line: street road path sidewalk walkway streets roads
race: horse horses car cars motorcycle motorcycles bike bikes
shake: hand hands
open: gift present door box gifts presents
climb: rock wall mountain cliff tree ladder
cut: cake pizza bread grass tree ribbon hair
pick: flower flowers apple apples orange oranges fruit
use: laptop computer phone tool hammer microscope
roll: ball dough tire
smoke: cigarette cigar pipe cigarettes
shoot: basketball ball
drop: ball
serve: food meal dinner
read: book newspaper magazine paper books newspapers magazines map
"""
_PARTICIPLES = {"pet": "petted", "light": "lit", "smell": "smelled", "mow": "mowed"}
_FORMS = ("VB", "VBP", "VBZ", "VBG", "VBD", "VBN")


def _objects(text: str) -> Mapping[str, frozenset[str]]:
    lines = text.replace("\\\n", "").strip().splitlines()
    pairs = (line.split(": ") for line in lines)
    return MappingProxyType({verb: word_set(objects) for verb, objects in pairs})


OBJECTS = _objects(_OF)
"""Verbs that are turned with these objects only: one does not take a bath the other way round."""


@cache
def base_forms() -> Mapping[str, str]:
    """Every form of the verbs, with its base form."""
    found = {inflected(verb, tag): verb for verb in _VERBS.split() for tag in _FORMS}
    # The second spelling of the verbs that have two.
    found |= {form: verb for verb, form in _PARTICIPLES.items()}
    return MappingProxyType(found)


def participle(verb: str) -> str:
    """The past participle."""
    return _PARTICIPLES.get(verb) or inflected(verb, "VBN")
