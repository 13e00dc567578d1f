"""Adjectives of captions by class, with what may replace each: false of the same thing, never near.

Each line is "word: replacements". Near-synonyms and words that could both be true (white and grey,
red and orange) are not on each other's line.
"""

from __future__ import annotations

from unbag.captions.word_lists import by_line, word_set

REPLACED_COLOURS = by_line(
    """
    red: blue green yellow black white purple gray
    blue: red green yellow black white orange pink brown
    green: red blue yellow black white orange pink purple
    yellow: red blue green black white purple pink gray
    orange: blue green black white purple gray
    purple: red green yellow black white orange brown
    pink: blue green yellow black brown gray
    brown: blue green red white purple pink
    black: white red blue green yellow orange pink
    white: black red blue green brown purple orange
    gray grey: red green yellow orange pink purple brown
    tan beige: blue green red black purple
    silver: red green black blue brown
    gold golden: black blue green white red
    maroon: blue green yellow white
    navy: red yellow white orange
    turquoise teal: red yellow black orange white
    violet lavender: red green yellow black
    """
)
COLOURS = frozenset(REPLACED_COLOURS) | word_set("""
    amber auburn blond blonde bronze chrome cream crimson ebony ivory khaki magenta multicolored
    multi-colored colorful rainbow red-haired scarlet
    """)
NATURAL_COLOURS = word_set("black white brown gray tan")
"""Of animals: a purple horse is told from the original without looking at a picture."""

REPLACED_MATERIALS = by_line(
    """
    wooden wood: metal plastic glass stone
    bamboo wicker: metal plastic glass stone
    metal metallic steel iron aluminum: wooden plastic glass stone
    plastic: wooden metal glass
    glass: wooden metal plastic stone
    crystal: wooden metal plastic
    stone marble granite: wooden metal plastic glass
    brick: wooden metal glass
    concrete cement: wooden metal glass
    ceramic porcelain clay: wooden metal plastic
    paper cardboard: metal glass wooden
    rubber: wooden metal glass
    """
)
REPLACED_FABRICS = by_line(
    """
    leather: denim cotton wool silk
    denim: leather silk wool
    cotton: leather denim
    wool woolen: leather denim silk
    silk satin: leather denim wool
    fur: leather denim silk
    """
)
REPLACED_PAVINGS = by_line(
    """
    dirt: asphalt brick cobblestone
    gravel: asphalt brick
    asphalt: dirt gravel brick
    cobblestone: dirt asphalt gravel
    brick: dirt gravel asphalt
    concrete cement: dirt gravel brick
    """
)
MATERIALS = (
    frozenset(REPLACED_MATERIALS) | frozenset(REPLACED_FABRICS) | frozenset(REPLACED_PAVINGS)
)
PAVED = word_set("driveway lane lot path pathway road roadway sidewalk street trail walkway")

REPLACED_SIZES = by_line(
    """
    big large: small tiny
    huge giant enormous massive gigantic: small tiny
    small tiny little miniature: large huge
    tall: short
    long: short
    lengthy: short
    short: long
    wide: narrow
    narrow: wide
    thick: thin
    thin: thick
    deep: shallow
    shallow: deep
    """
)
TALL = word_set(
    """
    boy building fence giraffe girl grass lamp man person player pole skyscraper statue structure
    stack tower tree wall woman bookcase bookshelf glass ladder
    """
)
"""What is "short" where it is not tall; other things are short where they are not long."""

REPLACED_STATES = by_line(
    """
    open: closed
    opened: closed
    closed: open
    wet soaked damp: dry
    dry: wet
    empty vacant: full
    full: empty
    clean: dirty
    dirty filthy: clean
    muddy: dry clean
    cooked: raw
    raw uncooked: cooked
    ripe: unripe rotten
    unripe: ripe
    lit lighted illuminated: unlit
    unlit: lit
    sunny: rainy cloudy
    rainy: sunny
    cloudy overcast: cloudless
    cloudless: cloudy
    broken cracked: intact
    crowded: deserted
    busy bustling: deserted
    deserted: crowded
    messy cluttered: tidy
    tidy neat: messy
    calm: rough
    choppy rough: calm
    curly: straight
    straight: curly
    male: female
    female: male
    indoor: outdoor
    outdoor: indoor
    paved: unpaved
    unpaved: paved
    parked: moving
    moving: parked
    smiling happy: crying angry
    sad crying: smiling
    angry: smiling
    sliced: whole
    rusty rusted: shiny
    shiny: rusty
    striped: checkered spotted
    checkered plaid: striped spotted
    spotted polka-dotted: striped checkered
    round circular: square triangular
    square rectangular: round triangular
    modern: old-fashioned
    vintage antique old-fashioned: modern
    bearded: clean-shaven
    steep: gentle
    furnished: unfurnished
    unmade: made
    sleeping: playing
    frozen: thawed
    fresh: rotten
    rural: urban
    urban: rural
    elderly: young
    """
)
AGES = by_line(
    """
    old: young
    older: younger
    young: old elderly
    younger: older
    """
)
"""Of people and animals; things are old or new."""
AGES_OF_THINGS = by_line(
    """
    old: new
    older: newer
    new: old
    newer: older
    """
)

NOT_ATTRIBUTES = word_set(
    """
    - additional all another back bottom certain close covered different double else entire few
    first following front half high last left less like main many mid middle more most much
    multiple nearby next numerous only opposite other out own possible ready right same second
    several shaped sized such third top total unable various very whole
    """
)
"""Adjectives by tag that say how many or which, not what a thing looks like."""

WEAK = word_set(
    """
    amazing attractive beautiful big cute delicious fancy good great happy huge interesting large
    little lone lonely long lovely male female fellow senior adult teenage modern new nice old
    older pretty short single small tall tasty tiny traditional typical unusual young younger
    """
) | frozenset(REPLACED_SIZES)
"""Might be true of the other thing as well."""

TELLING = word_set(
    """
    bald barefoot bearded cloudy cobbled cooked curly elderly floppy floral flowered fluffy foggy
    fried furry grassy grilled icy inflatable leafy paved plaid checkered ripe rocky rusted rusty
    sandy shirtless sleeping sliced smiling snowy spotted striped tiled wooded wooly overcast
    """
)
"""Said of one thing, hardly true of another."""
SKIN_COLOURS = word_set("black white brown yellow red tan dark light blond blonde golden bronze")
"""Moved to a person they speak of skin or hair, and may be true."""

_FIXED = """
hot: dog dogs chocolate tub pot plate air sauce
light: saber sabers bulb bulbs pole poles fixture fixtures house
teddy: bear bears
stuffed: animal animals bear bears toy toys teddy elephant rabbit dog bunny monkey dolphin peppers
polar: bear bears
high: chair chairs school heels tech
mobile cellular: phone phones home
smart: phone phones
remote: control controls controller controllers controlled
soft: drink drinks ball pretzel serve
french: fries toast bread bulldog press
wild: animal animals flowers life cat rice
living: room rooms
stainless: steel
wet: suit suits wipes
flat: screen screens bed
fast: food
fresh: air water
open: air area field fields space plain plains sea ocean range faced water
full: moon size length sized uniform view
dry: erase cleaning cleaner
dirty: look
clean: shaven
straight: line
old: fashioned
new: york zealand england year years orleans
big: ben rig wheel bird top screen
little: league ones
long: range board boards jump distance exposure line lines
short: cake bread stop
small: talk
tall: order ship
deep: dish fryer fried freezer
wide: open range receiver variety array assortment selection
thick: of
white: water house wine board rice sauce bread chocolate collar meat pepper noise caps
red: wine sox onion onions cross carpet velvet eye eyes light lights meat cabbage neck
black: pepper bean beans tea coffee belt board eye tie
green: bean beans onion onions tea pea peas house light lights salad salads vegetables veggies
brown: rice sugar bread gravy
blue: cheese jay ray collar berry berries
orange: juice slice slices peel tree trees fruit wedge wedges half halves section sections soda
gold golden: retriever retrievers medal gate leaf
silver: ware medal lining
pink: eye
purple: heart
yellow: jacket jackets pages light
gray grey: hound
paper: towel towels airplane
glass: half
rubber: duck ducks ducky stamp band
cotton: candy
metal: detector band
wood: stove chips pile
wooden: spoon
iron: man
dirt: bike bikes biker track
plastic: surgery
leather: face
sunny: side
rough: housing terrain
happy: birthday meal
cross: country
male female: member
raw: hide
round: trip about
square: dance dancing foot
moving: van truck
crying: shame
"""
_FIXED_PAIRS = frozenset((word, noun) for word, nouns in by_line(_FIXED).items() for noun in nouns)


def is_fixed(adjective: str, noun: str) -> bool:
    """Whether the two are one name ("hot dog", "red wine"), in lower case as they stand."""
    return (adjective, noun) in _FIXED_PAIRS
