"""Verbs of captions with those that exclude them, by what the verb acts on or who does it.

Lines are "verb: replacements" or "verb/class: replacements"; classes of objects are those of
OBJECTS. A replacement takes the same objects and prepositions, and cannot be true at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unbag.captions.word_lists import ANIMALS, PEOPLE, by_line, word_set

OBJECTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "person": PEOPLE,
        "animal": ANIMALS,
        "cycle": word_set(
            "bike bicycle motorcycle motorbike moped scooter skateboard unicycle tricycle cart"
        ),
        "vehicle": word_set("car truck van bus tractor train carriage boat wagon motorcycle"),
        "board": word_set("surfboard snowboard board sled ski"),
        "wave": word_set("wave"),
        "ball": word_set("ball frisbee disc football basketball baseball soccer"),
        "worn": word_set(
            """
            backpack bandana bandanna cap coat collar costume dress glasses goggle goggles hat
            headband helmet hoodie jacket jersey mask necklace pants robe scarf shirt shoe shorts
            skirt suit sunglasses sunglass sweater tie uniform vest wig
            """
        ),
        "food": word_set(
            """
            apple banana bread burger burrito cake candy carrot cheese cookie cupcake dessert
            donut doughnut egg food fruit hamburger hotdog meal meat orange pastry pizza salad
            sandwich slice snack soup vegetable
            """
        ),
        "plant": word_set("grass hay leaf leave tree branch plant straw"),
        "drink": word_set("beer beverage coffee drink juice milk soda tea water wine"),
        "tool": word_set("bat racket racquet paddle umbrella stick flag phone camera cellphone"),
        "print": word_set("book magazine newspaper paper letter map menu"),
        "game": word_set(
            "baseball basketball football frisbee game hockey soccer tennis volleyball"
        ),
        "instrument": word_set("guitar piano drum violin trumpet saxophone flute instrument"),
        "screen": word_set("tv television movie"),
        "structure": word_set("door window gate umbrella refrigerator drawer book laptop"),
        "teeth": word_set("tooth hair"),
        "kite": word_set("kite"),
        "small": word_set(
            """
            bag ball banana basket book bottle bowl box cup donut doll fork frisbee glass glove
            kite knife phone plate remote rope sign spoon stick suitcase toy tray umbrella
            """
        ),
    }
)

WITH_OBJECT = by_line(
    """
    ride/cycle: push carry repair
    ride/animal: feed wash lead chase
    ride/vehicle: wash repair paint
    ride/board: carry wax
    drive/vehicle: push wash repair
    push/cycle: ride carry
    push/vehicle: drive paint
    pull/vehicle: push paint
    walk/animal: carry wash chase
    walk/cycle: ride
    feed/animal: ride chase wash
    lead/animal: ride chase feed
    chase/animal: feed carry
    chase/person: hug carry
    hold/animal: chase ride
    hold/person: chase follow
    carry/person: chase follow
    hug/person: chase push
    kiss/person: chase push
    hold/tool: drop throw
    hold/small: throw drop kick
    carry/small: kick throw
    carry/board: ride
    hold/board: ride
    wear/worn: fold wash throw carry
    throw/ball: catch kick
    catch/ball: throw kick
    kick/ball: throw hold
    hit/ball: catch kick
    swing/tool: drop carry
    eat/food: cook throw sell
    eat/plant: trample
    cook/food: eat throw
    cut/food: eat cook
    prepare/food: eat
    drink/drink: pour spill
    pour/drink: drink
    read/print: write tear
    write/print: read tear
    open/structure: close
    close/structure: open
    play/game: watch
    play/instrument: carry repair
    watch/screen: carry repair
    fly/kite: fold repair
    climb/plant: plant
    brush/teeth: cut
    """
)
"""By verb and class of the object."""

WITHOUT_OBJECT = by_line(
    """
    sit: stand kneel dance jump
    stand: sit kneel lie crawl
    walk: crawl hop sit
    run: crawl sit kneel
    lie lay: stand dance jump
    sleep: stand dance jump
    jump leap: crawl sit kneel
    kneel: stand dance jump
    crouch: stand dance
    crawl: dance walk
    dance: sit sleep kneel
    swim: walk stand
    ski: crawl snowboard
    snowboard: ski crawl
    skateboard: walk crawl
    smile grin: cry frown
    laugh: cry frown
    cry: laugh smile
    """
)
"""Of people; what a thing does by sitting it does by standing as well."""

OF_ANIMALS = by_line(
    """
    sit: stand run jump
    stand: sit lie run
    walk: sit lie sleep
    run: sit lie sleep
    lie lay: stand jump run
    sleep: stand jump run
    jump leap: sit lie sleep
    graze: sleep lie run
    swim: sleep sit
    """
)

ALONG_WAY = by_line(
    """
    walk: run crawl
    run: walk crawl
    jump leap: walk crawl
    crawl: run
    ski: walk crawl
    snowboard: walk crawl
    skateboard: walk crawl
    """
)
"""With "through", "over" and the like nobody sits."""
WAYS = word_set(
    """
    across along around away behind between by down from into off onto out over past through to
    toward towards under up
    """
)
