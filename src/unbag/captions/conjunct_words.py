"""Words that decide whether what "and" joins may change places: set pairs, lasting acts."""

from __future__ import annotations

from unbag.captions.word_lists import word_set

_SET_PAIRS = """
salt pepper
bride groom
knife fork
forks knives
suit tie
shirt tie
jacket tie
coat tie
bread butter
fish chips
bow arrow
bows arrows
ladies gentlemen
mom dad
mother father
mother daughter
mother son
father son
father daughter
husband wife
cat mouse
rock roll
arts crafts
bed breakfast
cup saucer
cups saucers
meat potatoes
pen paper
lock key
washer dryer
mac cheese
macaroni cheese
bacon eggs
eggs bacon
ham cheese
ham eggs
cream sugar
milk cookies
cookies cream
chips salsa
chips dip
spaghetti meatballs
rice beans
peanut jelly
butter jelly
track field
horse carriage
horse buggy
horse cart
bucket spade
mortar pestle
needle thread
hammer nail
skull crossbones
stars stripes
sun moon
day night
night day
heaven earth
front back
back forth
left right
top bottom
right left
up down
up about
in out
over over
on on
hide seek
hugs kisses
shoes socks
table chairs
tables chairs
trial error
wine cheese
toilet sink
first second
now then
here there
more more
nice warm
one only
sweet sour
surf turf
dead alive
lost found
hot cold
yin yang
head shoulders
hands feet
arms legs
hat coat
cap gown
"""
_PAIRS = frozenset(frozenset(line.split()) for line in _SET_PAIRS.strip().splitlines())

LOOKING_BACK = word_set("""
    his her hers its their theirs him it them he she they himself herself itself themselves other
    another others each both one ones that which who whose this these those same more so then also
    too else such respectively rest another's
    """)
"""With these, one side speaks of the other or of something before."""
NO_SWAP_AFTER = word_set("between both either from neither versus vs compares comparing than")

JOINT = word_set("""
    sitting standing walking running playing riding posing looking talking dancing eating swimming
    jumping kissing hugging laying lying sleeping resting skiing surfing skateboarding running
    laughing smiling waiting relaxing hiking
    """)
"""After two people or animals, done by both."""
LASTING = word_set("""
    sit stand hold wear look smile watch talk read eat drink play laugh lie wait listen pose carry
    sleep lean kneel sing dance use enjoy wave rest relax smoke write speak work lay cheer chat
    """)
"""Done at the same time when joined: none has to come first."""


def is_set_pair(one: str, other: str) -> bool:
    """Whether the two are always said in one order, as "salt and pepper"."""
    return frozenset((one, other)) in _PAIRS
