"""Words that a caption's truth hangs on: negations, numbers, colours, sides and opposites."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from unbag.edits.inflection import inflected

# Nouns of captions by what they name: people, animals, stuff, groups, pictures, near-synonyms.
#
# Lemmas, in lower case. Written for captions of photographs; a word that is missing makes a rule
# decline or be less strict, never fail.


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


PEOPLE = word_set(
    """
    adult artist athlete audience baby band barber bartender batter bicyclist biker boarder boy
    boyfriend bride brother bystander catcher chef child clown coach cook cop couple cowboy crew
    crowd customer cyclist dad daughter dancer doctor driver employee family fan farmer father
    female fielder fireman firefighter fisherman friend gentleman girl girlfriend goalie golfer
    grandmother grandfather groom guitarist guy hiker husband infant jockey kid lady male man mom
    monk mother motorcyclist musician nurse officer operator owner painter parent passenger
    pedestrian people performer person photographer pitcher player police policeman politician
    racer rider runner sailor shopper sister skateboarder skater skier snowboarder soldier someone
    somebody spectator student surfer surgeon swimmer teacher team teen teenager toddler tourist
    umpire vendor waiter waitress wife woman worker wrestler youngster youth tot
    """
)

ANIMALS = word_set(
    """
    alligator animal antelope ape bear bee bird bison buffalo bull bulldog butterfly calf camel cat
    cattle cheetah chick chicken colt cow cowboy crab crow deer dog dolphin donkey dove duck
    duckling eagle elephant ewe ferret fish flamingo foal fox frog gazelle giraffe goat goose
    greyhound hamster hawk hen heron hippo horse insect kangaroo kitten kitty lamb leopard lion
    lizard llama monkey moose mouse mule ostrich otter owl ox panda parrot peacock pelican penguin
    pet pig pigeon pony poodle pug pup puppy rabbit ram rat retriever rhino rooster seagull seal
    shark sheep sheepdog shepherd snake sparrow spaniel spider squirrel stallion swan terrier tiger
    turkey turtle whale wolf yak zebra
    """
)

ALIVE = PEOPLE | ANIMALS

MASS = word_set(
    """
    air art asphalt bacon baggage bread broccoli butter cement cereal cheese chocolate clothing
    coffee concrete corn countryside cream dirt equipment fabric food foliage fruit fur furniture
    garbage gear glassware grass gravel graffiti greenery ham hair hay ice jewelry juice land
    lettuce luggage meat memorabilia merchandise metal milk mud mulch paint pasta pavement pepper
    plastic produce rain rice rubble salad salt sand scenery seafood silverware smoke snow soda
    soil soup spaghetti steam steel stuff sugar sunlight surf tea toast traffic trash vegetation
    water wheat whipped wildlife wine wood wool wiring
    """
)
"""No "a" and no number before them, and no plural."""

PAIRED = word_set(
    """
    binocular clothe clothes glass glasses goggle goggles headphone headphones jean jeans khaki
    overalls pajama pajamas pant pants pliers scissor scissors short shorts ski skis stair stairs
    sunglass sunglasses swim_trunks tights trouser trousers trunks
    """
)
"""Plural in form, so no number goes well with them."""

GROUPINGS = word_set(
    """
    amount array arrangement assortment batch bit body bowlful bunch bundle cluster collection
    combination couple crowd display dozen duo flight flock form gathering group half handful heap
    herd host hundred kind lot majority mass mix mixture multitude number pack pair part piece pile
    plenty portion range row school section selection series set side slice sort stack string trio
    type variety whole
    """
)
"""In "a group of people" it is people who do something."""

PICTURES = word_set(
    """
    angle art artwork closeup drawing film footage illustration image landscape painting photo
    photograph pic picture portrait print reflection scene screenshot selfie setting shadow shot
    silhouette sketch still view
    """
)

CONTAINERS = word_set(
    """
    bag barrel basin basket bottle bouquet bowl box bucket can carton case cone container crate cup
    glass jar jug mug pan plate platter plateful pot rack sack scoop serving spoonful tray tub vase
    """
)

NO_THINGS = word_set(
    """
    - action activity anything everything something someone somebody anyone everyone nobody
    afternoon age air atmosphere back background base beginning black blue body bottom brown
    camera_angle closeup color colour condition corner dark day daylight daytime design direction
    distance edge effort end evening event eye_level fashion focus foreground form front fun green
    grey height indoor jump kind leap left length level life living look manner middle midair
    midday midst morning motion move nature night noon nothing number one other order outdoor part
    pass pattern pink place pose position purple purpose red right ride row run season setting
    shade shape side sight size snowy sort speed spot spring standing stride stunt style sunny t
    thing time top trick turn type use variety walk way weather week white width winter work yellow
    year
    """
)
"""Places in the picture, times, manners, colours: nothing that could change places with a thing."""

DOINGS = word_set(
    """
    baseball basketball bath break breath business call competition concert conversation cricket
    dinner exercise flip football game golf handstand hockey jump kick lesson lunch match meeting
    mess music nap picnic polo race rest ride rugby sex shopping show skating skiing snowboarding
    soccer softball song sport surfing swim tennis test tour training trip volleyball wedding
    """
)
"""In "play tennis" and "take a nap" the noun belongs to the verb."""

_SAME = """
person people: man woman boy girl child kid guy lady adult player skier surfer rider skateboarder
person people: snowboarder cyclist toddler skater baby someone male female teenager group crowd
man: guy gentleman male dude adult player batter catcher pitcher rider cyclist biker skateboarder
man: skier snowboarder surfer father dad officer worker
woman: lady female adult player rider cyclist skier snowboarder surfer mother mom girl
boy: child kid toddler youngster youth teenager son skateboarder player
girl: child kid toddler youngster youth teenager daughter player lady
child kid: toddler baby infant youngster
child: kid
baby: infant toddler
street road: road roadway highway avenue lane pavement asphalt intersection crosswalk path ground
path: trail walkway sidewalk
sidewalk: pavement walkway ground
couch: sofa loveseat
bike: bicycle motorcycle motorbike moped
motorcycle: moped scooter motorbike
tv television: television screen monitor set
computer: laptop pc notebook monitor
plane airplane: airplane jet jetliner aircraft airliner
photo picture: picture image photograph pic
hill mountain slope: slope hillside mountain mountainside cliff hill
slope: snow run ground
water: ocean sea wave surf lake pond river stream creek pool
ocean: sea wave surf
lake: pond
river: stream creek
boat: ship sailboat canoe kayak vessel
vehicle: car bus train truck van suv automobile motorcycle
car: automobile van suv truck
truck: van lorry pickup
bus: coach
train: locomotive
racket: racquet
frisbee: disc disk
refrigerator: fridge freezer
stove: oven range
phone: cellphone smartphone telephone cell
counter: countertop table
table: desk
fence: railing wall gate rail
plate: dish platter tray
bowl: dish plate
cup: mug glass
food: meal dish lunch dinner breakfast snack vegetable fruit sandwich pizza cake meat pastry donut
vegetable: veggie broccoli carrot salad produce
fruit: apple banana orange produce
sandwich: burger hamburger
cake: dessert pastry
donut: doughnut pastry
animal: dog cat horse cow sheep elephant giraffe zebra bear bird goat pet
dog: puppy pup retriever terrier poodle greyhound pet
cat: kitten kitty pet
horse: pony
cow: bull cattle calf
sheep: lamb ram goat
bird: duck seagull pigeon
tree: plant bush shrub branch
plant: flower bush
forest: wood woods tree
field grass: grass lawn meadow pasture grassland plain yard turf area ground
beach: sand shore coast shoreline
ground: dirt floor sand snow
rock: stone boulder
building: house structure skyscraper tower home
house: home
store: shop market
room: bedroom bathroom kitchen area
tub: bathtub bath
shirt: top t-shirt tee blouse jersey sweater hoodie sweatshirt
jacket: coat
hat: cap helmet
pant pants: jean jeans trousers
suit: uniform outfit costume
bag: purse backpack handbag luggage suitcase
suitcase: luggage baggage
player: batter catcher pitcher athlete
rider: cyclist biker bicyclist motorcyclist
skateboarder: skater boarder
board: skateboard surfboard snowboard ski
city: town
sky: cloud air
runway: road tarmac
light: lamp
flower: rose bouquet
vase: pot jar
court: field
ball: baseball basketball football
toilet: urinal
utensil: knife fork spoon
seat: chair bench stool
rug: carpet mat
pole: post
crowd: audience spectator group
track tracks: rail track tracks
"""


def by_line(lines: str) -> Mapping[str, tuple[str, ...]]:
    """Lines "word: a b c" as a mapping; a word of several lines gets all of them."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines.strip().splitlines():
        word, _, rest = line.partition(":")
        for key in word.split():
            found[key] = (*found.get(key, ()), *rest.split())
    return MappingProxyType(found)


def both_ways(lines: str) -> frozenset[tuple[str, str]]:
    """Every pair of a word and one after its colon, in both orders."""
    pairs = [(word, other) for word, some in by_line(lines).items() for other in some]
    return frozenset([*pairs, *((other, word) for word, other in pairs)])


_NEAR = both_ways(_SAME)


def is_near(one: str, other: str) -> bool:
    """Whether two nouns may name the same thing: a sofa is a couch, a man a person."""
    return one == other or (one, other) in _NEAR


# Verbs of captions with those that exclude them, by what the verb acts on or who does it.
#
# Lines are "verb: replacements" or "verb/class: replacements"; classes of objects are those of
# OBJECTS. A replacement takes the same objects and prepositions, and cannot be true at once.

ACTION_LISTS_OBJECTS: Mapping[str, frozenset[str]] = MappingProxyType(
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

# Adjectives of captions by class, with what may replace each: false of the same thing, never near.
#
# Each line is "word: replacements". Near-synonyms and words that could both be true (white and
# grey, red and orange) are not on each other's line.

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
ATTRIBUTE_LISTS_COLOURS = frozenset(REPLACED_COLOURS) | word_set("""
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


_WATERS = word_set(
    """
    creek current lake ocean pond pool puddle rapid river sea spot stream surf tide water wave
    """
)
_GROUNDS = word_set(
    """
    area bank beach court field grass ground hill lot path pathway road sand shore street track
    trail yard
    """
)
_ONLY = {
    "calm": _WATERS - {"puddle", "spot"},
    "gentle": word_set("bank descent grade hill hillside incline path ramp road slope trail"),
    "rotten": word_set(
        "apple banana bread egg fish food fruit meat orange produce salad tomato vegetable"
    ),
}
"""Some states are said of few things."""
_NEVER = {
    "dry": (_WATERS - {"creek", "river", "stream", "pond", "spot"}) | {"snow", "ice"},
    "full": _GROUNDS | {"stretch", "space", "sky", "landscape", "plain", "desert", "highway"},
    "thawed": word_set("cream ice surface treat wall waterfall yogurt"),
    "clean": _GROUNDS | _WATERS,
}
"""Others of all but these."""


def is_said_of(state: str, noun: str, *, instead_of: str) -> bool:
    """Whether a thing with this lemma can be in the state: no rock is calm, no water dry."""
    if (instead_of, state) == ("muddy", "dry"):
        # Mud dries on dogs and cars; only ground is muddy because it is wet.
        return noun in _GROUNDS
    if is_fixed(state, noun) or noun in _NEVER.get(state, ()):
        return False
    return state not in _ONLY or noun in _ONLY[state]


# Words that decide whether what "and" joins may change places: set pairs, lasting acts.

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


# Words that are written in two ways, and verbs that captions use in both present tenses.

_SPELLINGS = """
grey = gray
colour = color
colours = colors
coloured = colored
colourful = colorful
multicolored = multi-colored
multicoloured = multi-coloured
centre = center
theatre = theater
tyre = tire
tyres = tires
jewellery = jewelry
donut = doughnut
donuts = doughnuts
pyjamas = pajamas
moustache = mustache
kerb = curb
favourite = favorite
harbour = harbor
neighbour = neighbor
neighbourhood = neighborhood
traveling = travelling
traveler = traveller
omelette = omelet
yoghurt = yogurt
toward = towards
blonde = blond
cosy = cozy
plough = plow
grey-haired = gray-haired
t-shirt = tee shirt
t-shirts = tee shirts
tshirt > t-shirt
t shirt > tee shirt
tee shirt = t-shirt
closeup = close-up
close up > closeup
hotdog = hot dog
hotdogs = hot dogs
bath tub > bathtub
surf board > surfboard
surf boards > surfboards
skate board > skateboard
skate boards > skateboards
snow board > snowboard
snow boards > snowboards
wet suit > wetsuit
wet suits > wetsuits
book shelf > bookshelf
firetruck = fire truck
lifejacket = life jacket
cell phone = cellphone
cell phones = cellphones
mid-air = midair
mid air > midair
base ball > baseball
foot ball > football
basket ball > basketball
tooth brush > toothbrush
tooth brushes > toothbrushes
hair cut > haircut
side walk > sidewalk
motor cycle > motorcycle
motor bike > motorbike
back pack > backpack
sun glasses > sunglasses
pick up truck > pickup truck
pick-up truck > pickup truck
air plane > airplane
rail road > railroad
water melon > watermelon
birdhouse = bird house
tablecloth = table cloth
playpen = play pen
stop light > stoplight
street light = streetlight
street lights = streetlights
ok > okay
barbecue = barbeque
ketchup = catsup
racquet = racket
racquets = rackets
woollen = woolen
axe = ax
artefact = artifact
aeroplane = airplane
speciality = specialty
"""

_ACTIVITIES = """
balance bat bite blow board bounce bow brush carry catch chase chew climb cook crawl cross crouch
cut dance dig dive drag drink drive eat face feed fight float fly follow gallop gather gaze graze
grab hang help hike hit hold hop hug hurdle jog juggle jump kayak kick kiss kneel laugh lead lean
leap lick lie lift listen march observe pace paddle paint pass pedal peek perform pet play point
pose pour prepare pull push race rake read relax rest ride roll row run sail scream shake shout
sing sit skate skateboard ski skip sleep slide smile smoke sniff snowboard speak spin splash sprint
squat stand stare stretch stroll surf sweep swim swing tackle talk throw toss touch tow travel trot
tumble use wade wait walk wash watch wave wear work wrestle write yawn zoom
"""
_TAGS = ("VB", "VBZ", "VBG")


def _both_ways(text: str) -> Mapping[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for line in text.strip().splitlines():
        one, sign, other = line.partition(" = ") if " = " in line else line.partition(" > ")
        found.setdefault(_tokens(one), other)
        if sign == " = ":
            found.setdefault(_tokens(other), one)
    return MappingProxyType(found)


def _tokens(text: str) -> tuple[str, ...]:
    """As the parser cuts it: hyphens are words of their own."""
    return tuple(text.replace("-", " - ").split())


SPELLINGS = _both_ways(_SPELLINGS)
"""By the words as they stand in lower case."""
MOST_TOKENS = max(map(len, SPELLINGS))
FIRST_TOKENS = frozenset(tokens[0] for tokens in SPELLINGS)

_FORM_WORDS_NUMBERS = "two three four five six seven eight nine ten eleven twelve"
FORM_WORDS_NUMBERS: Mapping[str, str] = MappingProxyType(
    {word: str(at) for at, word in enumerate(_FORM_WORDS_NUMBERS.split(" "), start=2)}
    | {str(at): word for at, word in enumerate(_FORM_WORDS_NUMBERS.split(" "), start=2)}
)
"""Two to twelve, as words and as digits."""

CONTRACTIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("is", "not"): "isn't",
        ("are", "not"): "aren't",
        ("was", "not"): "wasn't",
        ("does", "not"): "doesn't",
        ("do", "not"): "don't",
        ("did", "not"): "didn't",
        ("has", "not"): "hasn't",
        ("is", "n't"): "is not",
        ("are", "n't"): "are not",
        ("was", "n't"): "was not",
        ("does", "n't"): "does not",
        ("do", "n't"): "do not",
        ("did", "n't"): "did not",
        ("has", "n't"): "has not",
        ("ca", "n't"): "cannot",
        ("there", "is"): "there's",
        ("there", "'s"): "there is",
        ("it", "is"): "it's",
        ("it", "'s"): "it is",
        ("he", "is"): "he's",
        ("he", "'s"): "he is",
        ("she", "is"): "she's",
        ("she", "'s"): "she is",
        ("they", "are"): "they're",
        ("they", "'re"): "they are",
        ("who", "'s"): "who is",
        ("that", "'s"): "that is",
    }
)
"""Two words and how they are written together, or apart if they are together."""


@cache
def activities() -> Mapping[str, str]:
    """Present forms of verbs of doing, with their base form."""
    return MappingProxyType(
        {inflected(verb, tag): verb for verb in _ACTIVITIES.split() for tag in _TAGS}
    )


# Verbs whose passive sounds right in a caption, and what their objects may be.

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


PASSIVE_VERBS_OBJECTS = _objects(_OF)
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


# Nouns of captions in groups: what a thing could have been instead, and where that excludes it.
#
# A paragraph is "group | places | kinds" and goes on in indented lines. Kinds are separated by
# spaces; words of one kind stand between slashes and are never exchanged for each other, since both
# may be true. The first word of a kind is what others are replaced by, unless it begins with "-".
# Words with "_" are two words. A word in two kinds (a "bike") is exchanged for neither.

_LINES = """
pets | any |
    dog/puppy/pup/hound/greyhound/retriever/terrier/bulldog/poodle/collie/labrador/husky
    cat/kitten/kitty rabbit/bunny monkey fox
farm | any | horse/pony/foal/stallion cow/bull/calf/ox/cattle/buffalo sheep/lamb/ram/goat
    pig/hog donkey/mule camel
wild | any | elephant/baby_elephant giraffe zebra bear/cub lion tiger
birds | any |
    bird/pigeon/seagull/duck/goose/swan/parrot/owl/crow/sparrow/eagle/hawk/flamingo/pelican
    squirrel butterfly
players | any | baseball_player/batter/pitcher/catcher/umpire tennis_player
    football_player/rugby_player soccer_player/goalie basketball_player hockey_player
riders | any | skateboarder/skater surfer skier snowboarder
    -cyclist/bicyclist/biker/motorcyclist/rider
walkers | any | -hiker/climber/rock_climber swimmer/diver golfer -runner/jogger
people | any | -person/people/pedestrian/spectator/onlooker/passenger robot
    monkey
ages | any | -child/kid/toddler/baby/infant/youngster/teenager/boy/girl
    adult/grown-up/man/woman/guy/lady/gentleman
road | things | car/sedan/taxi/race_car/suv/van bus/city_bus truck/van/pickup_truck/fire_truck
    bicycle/bike/mountain_bike/dirt_bike motorcycle/bike/motorbike/dirt_bike/scooter/moped
    train/passenger_train/subway_train/train_car/tram
aircraft | things | airplane/plane/jet/airliner/jetliner/aircraft helicopter
boards | things | skateboard/skate_board surfboard/surf_board snowboard
    bicycle/bike
toys | things |
    ball/tennis_ball/soccer_ball/football/basketball/baseball/beach_ball/volleyball/toy
    frisbee/disc/disk/toy stick/branch
bats | things | tennis_racket/racket/racquet/tennis_racquet baseball_bat/bat golf_club
    hockey_stick
air_toys | things | kite balloon umbrella/parasol flag
held | things | book/newspaper/magazine laptop/laptop_computer/computer
    cell_phone/cellphone/phone/smartphone/mobile_phone camera guitar
instruments | things | guitar violin trumpet drum accordion
luggage | things | backpack suitcase/luggage purse/handbag basket
dishes | things | pizza sandwich/burger/hamburger/hot_dog/hotdog cake/birthday_cake/cupcake
    salad
sweets | things | doughnut/donut/bagel cookie sandwich
fruit | things | banana apple orange/tangerine strawberry pear
vegetables | things | carrot potato tomato cucumber
drinks | things | wine beer milk coffee
vessels | things | bottle cup/mug/glass/wine_glass bowl
cutlery | things | knife fork spoon
seats | on | bench/park_bench bed couch/sofa/loveseat table/desk/picnic_table chair/stool
rooms | in | kitchen bathroom/restroom bedroom living_room garage classroom
lands | in | field/pasture/meadow/grass_field/yard/park forest/woods/wood desert parking_lot
roads | on | beach street/road/highway/sidewalk/city_street/dirt_road/path/trail/runway
    mountain/hill/slope/cliff/ski_slope roof/rooftop
ground | in_on | grass/lawn sand snow mud
waters | in | swimming_pool/pool ocean/sea/lake/river/pond/creek/stream
head | worn | hat/cap/beanie/visor helmet crown
body | worn |
    suit/shirt/t-shirt/jersey/sweater/sweatshirt/jacket/coat/vest/hoodie/uniform/tuxedo/tee
    dress/gown/skirt swimsuit/bikini/wetsuit/bathing_suit robe
legs | worn | short jean/pant/trouser/slack/legging
street_things | subject | fire_hydrant/hydrant parking_meter mailbox trash_can
soft_toys | things | teddy_bear/teddy/stuffed_animal/stuffed_bear doll robot
"""

PLACES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "any": frozenset(),
        "things": frozenset(("on", "in", "with", "of", "into", "onto", "inside", "for", "at")),
        "subject": frozenset(),
        "on": frozenset(("on", "onto")),
        "in": frozenset(("in", "through", "inside", "into", "across")),
        "in_on": frozenset(("in", "on", "through", "across")),
        "worn": frozenset(("in", "with")),
    }
)
"""Prepositions after which two things of a group exclude each other; none means any."""
SUBJECTS = frozenset(("any", "things", "subject"))
"""Groups whose nouns are also replaced as subjects and objects."""


class Group(NamedTuple):
    """Things of one sort that exclude each other in one place."""

    name: str
    place: str
    """Where: a key of PLACES."""
    kinds: tuple[tuple[str, ...], ...]
    """Words of each kind, with spaces; the first is what others are replaced by."""
    sources: frozenset[int]
    """Kinds that are replaced only."""

    def others(self, word: str) -> tuple[str, ...]:
        """What the word may be replaced by: the first words of kinds that it is not in."""
        return tuple(
            kind[0]
            for at, kind in enumerate(self.kinds)
            if word not in kind and at not in self.sources
        )


def _group(line: str) -> Group:
    name, place, rest = (part.strip() for part in line.split("|"))
    kinds = rest.split()
    return Group(
        name,
        place,
        tuple(tuple(kind.lstrip("-").replace("_", " ").split("/")) for kind in kinds),
        frozenset(at for at, kind in enumerate(kinds) if kind.startswith("-")),
    )


PICTURABLE_GROUPS: tuple[Group, ...] = tuple(
    _group(line) for line in _LINES.replace("\n    ", " ").strip().splitlines()
)


def _by_word() -> Mapping[str, tuple[Group, ...]]:
    found: dict[str, tuple[Group, ...]] = {}
    for group in PICTURABLE_GROUPS:
        for word in {word for kind in group.kinds for word in kind}:
            found[word] = (*found.get(word, ()), group)
    return MappingProxyType(found)


GROUPS_OF: Mapping[str, tuple[Group, ...]] = _by_word()
"""By lemma: every group the word is in."""

_GENDERS = """
man: woman girl
guy: woman girl
gentleman: lady woman
woman: man boy
lady: man boy
boy: girl
girl: boy
male: female
female: male
bride: groom
groom: bride
mother: father
mom: dad
father: mother
dad: mom
"""


def _lines(text: str) -> Mapping[str, tuple[str, ...]]:
    parts = (line.partition(":") for line in text.strip().splitlines())
    return MappingProxyType({word: tuple(rest.split()) for word, _, rest in parts})


_GAMES = """
tennis baseball soccer basketball football volleyball racket racquet bat serve pitch pitcher batter
player hit golf rugby cricket match game
"""
IN_GAMES = frozenset(_GAMES.split())
"""Where one of these is said, a ball is no toy."""
GENDERED: Mapping[str, tuple[str, ...]] = _lines(_GENDERS)
"""People by sex, with what excludes them."""
MASCULINE = frozenset(("he", "his", "him", "himself"))
FEMININE = frozenset(("she", "her", "hers", "herself"))
MEN = frozenset(("man", "guy", "gentleman", "boy", "male", "groom", "father", "dad"))

HERDS = frozenset(("herd", "flock"))
HERDED = frozenset(("cow", "sheep", "elephant", "horse", "zebra", "giraffe", "bird", "goat"))
_MEASURE_WORDS = """
    school pack litter swarm slice piece pair bunch loaf glass cup bottle game type kind part back
    front top leg head tail side pride colony team portion
    """
MEASURES = frozenset(_MEASURE_WORDS.split())
"""Before "of", these are said of some things only."""
_NAMING_WORDS = """
hot polar grizzly teddy stuffed guide sea guinea german american toy wild naked nude topless
"""
NAMED_BY = frozenset(_NAMING_WORDS.split())
"""Before a noun, these make a name of it, say that it is no real one, or are best left alone."""

# Words that decide whether left, front, above or near name a place, and what then excludes it.


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


OWNERS = _set("the his her its their my your our")

SIDE_PARTS = _set("""
    hand hands arm arms leg legs foot eye ear shoulder knee wrist elbow side half corner edge end
    lane wing paw turn tire wheel shoe cheek thumb finger fist bank shoulder hip ankle part third
    hind headlight taillight page pocket
    """)
"""After "left" or "right", these make it a side."""

TURNING = _set("turn look face lean veer bank head point go travel move glance gaze curve bend")

FRONT_OBJECTS = _set("""
    bus truck car motorcycle bike bicycle boat train van vehicle trailer pickup scooter jeep plane
    airplane cab taxi carriage wagon cart class classroom line building house store shop church
    restaurant bar room church theater cabin
    """)
"""Things with a front and a back to be in or on; of a horse "the back" is something else."""

NOT_BEHIND = _set("""
    sky background backdrop sunset sunrise view sun cloud skyline horizon moon distance rainbow
    blue clouds skies lightning scenery
    """)
"""Nothing stands behind or before these in a picture."""

NOT_BEHIND_OBJECTS = _set("back ear wheel bar scene lens camera") | NOT_BEHIND
NOT_BEHIND_VERBS = _set("""
    hide peek peer leave trail drag pull tow look fall lag disappear set come emerge glance poke
    conceal follow obscure rise tuck
    """)

FRONT_PARTS = _set("""
    door seat wheel yard porch leg paw row end tire window half foot lawn tyre bumper
    """)
_BACK_PARTS = FRONT_PARTS - {"foot", "end"}
BACK_PARTS_OF = MappingProxyType(
    {"back": _BACK_PARTS, "rear": _BACK_PARTS, "hind": _set("leg paw foot")}
)

NOT_UNDER = _set("""
    ground grass snow sand field city town hill mountain head shoulder face eye ear arm back body
    hair mouth chest leg lap hand road street track beach land forest dirt floor valley park area
    time year camera nose neck world place edge side top surface counter stove fire grill there
    gravel hillside cornfield leaf countryside landscape desert village terrain trail path
    """)
"""Nothing moves or hangs under these in a caption of sense."""

OVER_VERBS = _set("""
    jump leap fly hop hover soar hang glide float pass suspend step climb hurdle bound vault skate
    dive sail swing skateboard flip cross walk run ride drive go stretch arch drape fly spread
    """)
OVER_NOT_THINGS = _set("""
    view look trick control all game way water over fight win air face turn body trip hand left sky
    """)

STANDABLE = _set("""
    table bed bridge roof chair bench desk car counter truck couch sofa shelf box bus van stool
    umbrella tree blanket boat train cabinet canopy awning tent sink dresser tv television
    """)
"""What something can be on top of that was under it."""
MOTION = _set("""
    walk run drive fly go pass ride travel sail swim move jog skate skateboard ski crawl jump float
    dive cross
    """)
NOT_UNDER_WORDS = _set("""
    sky light lighting construction sun sunshine sunlight water moon moonlight star cloud cover
    repair arm condition chin armpit shade name control glass eye spotlight wing shadow cloudy
    influence surveillance lamp streetlight heading supervision
    """)
"""After "under" these name a state or what cannot be below: under construction, under the sky."""

HIGH = _set("""
    hill mountain slope stair stairs staircase tower ladder ramp cliff hillside mountainside
    building pole step steps peak summit ridge dune skyscraper lighthouse
    """)
"""Has a top and a bottom to stand at."""
GROUND = _set("""
    ground grass snow sand field water floor ice dirt beach river lake ocean sea lawn pavement
    street road land pasture area sidewalk runway concrete court mud surface wave tarmac highway
    landscape desert town city plain meadow
    """)
LEVELS = _set("""
    shelf bunk step deck half level rack drawer floor corner row oven section part layer stair rung
    lip left right edge tier teeth cabinet
    """)
"""After "top", "bottom", "upper" or "lower", these make it a place."""

SLOPES = _set("""
    hill mountain slope stair stairs staircase ladder ramp cliff hillside mountainside step steps
    escalator incline dune tree wall pole rope stairway stairwell embankment halfpipe bank rock
    cliffside peak piste
    """)
"""Up and down are opposite there; along a street they are the same."""
UP_VERBS = _set("""
    walk run climb ride go ski snowboard skate skateboard hike bike drive come move crawl jog race
    travel head march descend ascend slide cycle trek jump
    """)

DRY = _set("""
    building house store room shop restaurant car bus train kitchen cage pen box tent bathroom
    house barn garage hotel church airport museum station bag container vehicle home gym cafe bowl
    enclosure stadium fence bakery hospital school market office truck van theater temple door
    """)
"""Has an inside and an outside."""
ENTERED = DRY | _set("pool water lake river ocean sea tunnel woods forest cave hole tub bathtub")
ENTERING = _set("jump run go walk climb get leap step crawl drive move fly swim wade hop")
TOWARDS = _set("""
    walk run go ride drive fly swim move jump race head look travel sail jog charge crawl kick throw
    leap face ski skate slide dash turn stare gaze point
    """)
NOT_FAR = _set(
    "left right end side edge top bottom middle center centre corner day time completion"
)

# Nouns of captions and other nouns for the same things, with what each exchange needs.
#
# A line is `old > new`, or `old = new` for both ways, and conditions after bars; `synonym_table`
# says what they mean. Left out is what only sometimes names the same: road for street, canine for
# dog, jet for plane.

NOUNS = """
sofa = couch | c m
settee > sofa
loveseat > small sofa | bare
bicycle > bike | c m
bike > bicycle | without motor motorcycle motorbike motorcyclist dirt race racer racing rider \
biker trick stunt ramp jump jumping helmet mountain leather gas biking wheelie
picture > photo | followed of | early
picture > photo | object take snap
image > picture | followed of
image > photo | followed of | early
photo > picture | c
photo > photograph
photograph > photo | c
photograph > picture | c
snapshot > photo
kid = child
youngster > kid
tot > toddler
toddler > small child | bare
lady > woman
woman > lady | notpreceded young old elderly older and | notfollowed and
guy > man
man > guy | notpreceded old elderly older young bald and | notfollowed and
gentleman > man
gal > girl
lad > boy
infant > baby
teenager = teen
father = dad
mother = mom | without elephant giraffe zebra sheep cow horse bear duck bird lamb dog cat goat
grandmother = grandma
grandfather = grandpa
folks > people | plural
individual > person | singular
individuals > people | plural
policeman > police officer
fireman > firefighter
cop > police officer
cyclist = bicyclist
biker > motorcyclist | with motorcycle motorcycles motorbike
motorcyclist > motorcycle rider
skateboarder > skater | with skateboard skateboarding skateboards board
surfer > person surfing | singular bare end
onlooker > spectator
spectator > onlooker
bystander > onlooker
chef > cook
soccer player > footballer | with soccer
puppy > pup
pup > puppy
puppy > young dog | bare
kitten > young cat | bare
doggy > dog
kitty > cat
bunny > rabbit
airplane = plane | c m
aeroplane > airplane | c m
airliner > passenger plane
automobile > car
car > automobile | without train trains rail rails railroad railway track tracks subway trolley \
tram cable race racing toy police
motorcycle = motorbike | m
fire truck = fire engine
semi truck > tractor-trailer
streetcar > tram
railroad = railway | m
train track > railroad track | m
freeway > highway | c m
street > road | notpreceded city | noton on in
roadway > road
pathway > path | c
path > pathway | notpreceded bike
trail > path | c | followed through in near along with by
ocean = sea | det
seashore > shore
shoreline > shore
shore > shoreline | notpreceded sea
creek = stream
woods > forest | plural det
boulder > big rock | bare
hilltop > top of a hill | singular
dusk > twilight
garbage = trash | m c
rubbish > trash | m c
trashcan > trash can
purse = handbag | c
backpack = rucksack
luggage = baggage | c | notfollowed claim carousel
pants > trousers | plural | notpreceded hot short
trousers > pants | plural
spectacles > glasses | plural
eyeglasses > glasses | plural
glasses > eyeglasses | plural | object wear
swimsuit = bathing suit
tie > necktie | notpreceded and bow | without train railroad
necktie > tie
garment > piece of clothing | singular
cellphone > mobile phone
cellphone > cell phone
cell phone = mobile phone
mobile phone > cellphone
telephone > phone | c
tv = television | m c
television set > television
laptop > laptop computer | notfollowed computer computers
laptop computer > laptop
remote > remote control | c | det | notfollowed control controls controller
remote control > remote
refrigerator = fridge | m c
microwave > microwave oven | notfollowed oven
microwave oven > microwave
restroom > bathroom | m
bathtub > tub
tub > bathtub | with bathroom bath toilet shower sink
faucet = tap | c
cabinet = cupboard | c m
counter > countertop | with kitchen sink stove oven refrigerator
countertop > counter | c
curtains > drapes | plural
drapes > curtains | plural
nightstand = bedside table
living room > sitting room
garbage can = trash can
waste basket > trash can
soda > soft drink
veggie > vegetable
vegetables > veggies | plural
hamburger = burger
spud > potato
fries > french fries | plural | notpreceded french
mug > cup
bucket = pail
store = shop
supermarket = grocery store
movie theater > cinema
house > home | det | notpreceded white light
home > house | det | notpreceded mobile nursing retirement
meadow > field
bunch > group | followed of | then people men women kids children boys girls persons skiers \
surfers students tourists
couple > pair | followed of | notthen times days weeks years hours minutes scissors glasses
slice > piece | followed of
piece > slice | followed of | then pizza cake bread toast pie watermelon cheesecake
bit > piece | followed of | det
variety = assortment | followed of
kinds > types | plural | followed of
types > kinds | plural | followed of
kind > type | followed of
type > kind | followed of
jetliner > passenger jet
yacht > luxury boat | bare
rowboat > rowing boat
ballplayer > baseball player
skyscraper > high-rise
bookshelf = bookcase
playing field > sports field
jewellery > jewelry
footwear > shoes | plural
racket = racquet | c
ski slope > ski run
court > tennis court | with racket racquet | notfollowed yard
stove top > stovetop
chopper > helicopter
eatery > restaurant
cafe > coffee shop
bistro > restaurant
merchandise > goods
cattle > cows | plural
stuffed animal = plush toy
stuffed toy > plush toy
stoplight = traffic light
traffic signal > traffic light
stop light > traffic light
crosswalk > pedestrian crossing
taxi = cab
autumn > fall | m
lorry > truck | c
pushchair > stroller | c
stroller = baby carriage
sailboat = sailing boat
parasol > sun umbrella
pebble > small stone | bare
bridegroom > groom
cookout > barbecue
lunchbox > lunch box
wharf = pier
jetty > pier
grin > smile | det
hound > dog
mutt > dog
steed > horse
bovine > cow
feline > cat | det
canine > dog | det
seagull = gull
snowboarder > person on a snowboard | singular bare end
skier > person on skis | singular bare end
hoodie > hooded sweatshirt
tee > t-shirt | with wearing
mitt > glove | with baseball catcher
baseball mitt = baseball glove
hair style > hairstyle
windscreen > windshield
pup tent > small tent | bare
cityscape > view of a city | singular
"""

# Adjectives, prepositions and set phrases that say the same, with what each exchange needs.
#
# The form of lines is that of `synonym_nouns`. Phrases are taken as they stand, without
# inflection.

ADJECTIVES = """
big > large | notof ben wheel top brother sister smile grin deal toe cat fan boy girl kid dog bird \
screen hug bite day crowd game city
large > big | notof amount number quantity part portion variety selection scale
huge > enormous
enormous > huge
gigantic > huge
massive > huge
giant > huge | notof panda slalom squid
tiny > very small
small > little | notof amount number portion quantity part size business percentage group crowd \
kitchen bathroom room plane airplane
little > small | notof bit league leaguer time while help league brother sister one | det
little > small | plural | notof bit league leaguers ones
old > elderly | of man woman lady couple gentleman people person
elderly > old | of man woman lady couple gentleman
aged > old | of man woman lady couple
beautiful > lovely
lovely > beautiful
gorgeous > beautiful
cute > adorable
adorable > cute
crowded > packed | of bus train street room restaurant beach stadium subway
empty > vacant | of seat bench chair lot
empty > deserted | of street beach road
colorful > brightly colored
colourful > brightly coloured
vibrant > bright | of color colors colour colours
grassy > grass-covered | of field hill area hillside slope
snowy > snow-covered | of mountain hill slope field ground road street area hillside path \
landscape forest park yard sidewalk trail tree trees bank
wooden > wood | of bench table chair floor fence door box desk frame bowl deck dock bridge panel \
counter cabinet floors
clear > cloudless | of sky skies
cloudless > clear | of sky skies
cloudy > overcast | of sky day skies
overcast > cloudy | of sky day skies
shirtless > bare-chested | of man boy men guy guys
barefoot > shoeless
lone > solitary
lone > single
solitary > lone
several > multiple | plural
multiple > several | plural
numerous > many | plural
many > numerous | plural | notpreceded so too how very as not the these those
various > different | plural
different > various | plural | of kind type color item food object animal size shape vegetable \
fruit kinds types colors items foods objects animals sizes shapes vegetables fruits
assorted > various | plural
various > assorted | plural | of fruit vegetable item fruits vegetables items flowers foods toys
modern > contemporary | of building kitchen house room furniture design office bathroom
contemporary > modern
ornate > elaborate
delicious > tasty
tasty > delicious
foggy > misty | of day morning field
misty > foggy | of day morning
whole > entire | of pizza cake family building street city room house team | singular
entire > whole | singular
outdoor > open-air | of market restaurant theater cafe concert
hilly > rolling | of landscape countryside
joyful > happy
cheerful > happy
unhappy > sad
filthy > very dirty
soaked > drenched
frightened > scared
scared > frightened
tired > weary
miniature > tiny
pretty > lovely | of woman girl flower lady view flowers
"""

PHRASES = """
near > close to | prep | notfollowed by
close to > near | notpreceded very up so too as
next to > beside | prep
next to > alongside | prep
beside > next to | prep
alongside > beside | prep
adjacent to > next to
under > beneath | prep | notof construction control repair age
under > underneath | prep | notof construction control repair age sky sun light tree
beneath > under | prep
beneath > below | prep
underneath > beneath | prep
underneath > under | prep
below > beneath | prep
above > over | prep | of door desk table bed fireplace head sink toilet stove entrance window \
counter doorway
over > above | prep | on fly soar hover hang float
on top of > atop
atop > on top of | prep
upon > on | prep
in back of > behind
to the rear of > behind
inside of > inside
outside of > outside
inside > inside of | prep | notfollowed of
inside > in | prep | notfollowed of | of box cage car bus truck van suitcase bag building house \
room kitchen bathroom bedroom garage tent airplane barn church bowl container
in > inside | prep | of box cage van suitcase building garage tent barn church refrigerator fridge \
closet bathtub oven barn basket crate
off of > off
among > amongst | prep
amongst > among | prep
amid > amidst | prep
amidst > amid | prep
while > as | clause
in the center of > in the middle of
in the centre of > in the middle of
in the middle of > in the center of | then street road field room table court lake pond square \
plaza circle plate bed floor
on the side of > at the side of | then road street highway track path river roadway
at the side of > by the side of
to the left of > on the left of
to the right of > on the right of
on the left of > to the left of
on the right of > to the right of
full of > filled with
filled with > full of
covered in > covered with
covered with > covered in | then snow mud graffiti leaves dirt grass stickers food frosting dust \
flowers ice blanket
made of > made out of
made out of > made of
dressed in > wearing | notpreceded well
wearing > dressed in | then suit uniform costume outfit gown robe tuxedo wetsuit clothes \
clothing suits uniforms costumes outfits kimono | notthen hat cap helmet glasses sunglasses
wearing > in | acl | then hat shirt jacket dress suit coat uniform cap helmet sweater vest skirt \
costume outfit gown wetsuit hoodie sweatshirt t-shirt jersey suits uniforms
in > wearing | prep | worn
a lot of > many | nns
lots of > many | nns
lots of > a lot of
a lot of > lots of
many > a lot of | nns | notpreceded so too how very as not the these those a his her their
a number of > several | nns | notpreceded large small great
each other > one another
one another > each other
someone > somebody
somebody > someone
everyone > everybody
everybody > everyone
side by side > next to each other
next to each other > side by side
beside each other > side by side
in midair > in the air
in mid air > in the air
in mid-air > in the air
in order to > to
outdoors > outside | adv
outside > outdoors | adv | noton look stare gaze peer see watch
nearby > close by | adv
rapidly > quickly
quickly > rapidly
downhill > down a hill | adv
uphill > up a hill | adv
asleep > sleeping | notpreceded fast falls falling fall sound
sleeping > asleep | predicate
seated > sitting | predicate
sitting > seated | predicate | by @people cat dog | notfollowed down up back | \
without hot stuffed teddy toy
sits > is seated | without hot stuffed teddy toy | by @people cat dog | notfollowed down up back
sit > are seated | plain | by @people cat dog cats dogs men women boys girls children kids | \
notfollowed down up back | without hot stuffed teddy toy
snow - covered > snowy | notpreceded and
brightly colored > colorful | attributive
brightly coloured > colourful | attributive
high up in the air > high in the air
at the same time > simultaneously
close together > near each other
in close proximity to > close to
as well as > along with
along with > together with
together with > along with
accompanied by > along with
"""

# Verbs of captions and verbs that say the same, with what each exchange needs.
#
# The form of lines is that of `synonym_nouns`; verbs stand in their base form, and the first word
# of the new ones is inflected as the old was.

VERBS = """
hold > grasp | obj bat racket racquet rope handle pole stick rail railing bar leash rod
grasp > hold | obj
clutch > hold | obj
walk > stroll | noobj | by @people | followed down along through on by past across in around near
stroll > walk | noobj
amble > walk | noobj
saunter > walk | noobj
jump > leap | noobj | without trampoline bed rope rail ramp | followed over into off through in \
from onto across to for towards toward out
leap > jump | noobj
ride > ride on | obj horse bike bicycle motorcycle motorbike skateboard surfboard elephant scooter \
camel donkey bull
ride on > ride | then horse bike bicycle motorcycle motorbike skateboard surfboard elephant scooter
ride > surf | obj wave | with surfboard surfer surf
surf > ride | obj wave
look at > gaze at | notthen each one | by @people dog cat horse bear bird
look out > gaze out | by @people dog cat horse bear bird
gaze at > look at
stare at > look at
stare > gaze | noobj | followed out into off
peer > look | noobj | followed out into through over at from
watch > observe | obj | notobj tv television movie video show game screen film step him her it
observe > watch | obj
eat grass > graze | by @grazers
graze > eat grass | noobj | without snow snowy dirt dry hay | by @grazers | notfollowed on upon over
munch on > eat
chew on > gnaw on
munch > eat | obj
devour > eat | obj
throw > toss | obj ball frisbee disc baseball football snowball stick toy rock
toss > throw | obj
hurl > throw | obj
hit > strike | obj ball | notfollowed up
strike > hit | obj ball
tow > pull | obj
pull > tow | obj boat trailer car truck | by @vehicles
tote > carry | obj
sport > wear | obj @clothes
don > wear | obj @clothes
grin > smile | noobj
do > perform | obj trick stunt flip jump handstand cartwheel backflip somersault maneuver
perform > do | obj trick stunt flip jump handstand cartwheel backflip somersault maneuver
take > snap | obj picture photo photograph selfie
snap > take | obj picture photo photograph selfie
climb > scale | obj wall mountain cliff rock
scale > climb | obj
climb up > climb | then hill mountain wall cliff rock tree ladder stairs rope
soar > fly | noobj
fly > soar | noobj | by bird eagle seagull gull hawk | followed over through above in
travel > move | noobj | by @vehicles | followed down along on through over across
dangle > hang | noobj | followed from
hang > dangle | noobj | followed from
sit > rest | noobj | by @things | followed on in next beside near by atop under between \
inside | notthen side wall
lay > lie | noobj | active | followed on in down under near by next with across against atop
cross > walk across | obj street road bridge intersection crosswalk | by @people
make > prepare | obj meal food dinner sandwich pizza breakfast lunch salad soup
prepare > make | obj meal dinner sandwich pizza breakfast lunch salad soup cake
cut > slice | obj cake pizza bread vegetable fruit apple tomato loaf onion carrot
slice > cut | obj
chop > cut | obj
speak > talk | noobj
talk > speak | noobj | followed on to into with
chat > talk | noobj | followed on to with while
converse > talk | noobj | followed with while on in
yell > shout | noobj
shout > yell | noobj
build > construct | obj
construct > build | obj
repair > fix | obj
fix > repair | obj car bike bicycle motorcycle roof machine computer tire truck boat engine sink
depict > show | obj
look like > resemble | by | then a an the
resemble > look like | obj
come out of > emerge from
emerge from > come out of
go down > descend | then hill slope mountain hillside stairs staircase | notthen slide
go up > climb | then hill slope mountain hillside stairs staircase
descend > go down | obj hill slope mountain hillside stairs staircase
raise > lift | obj hand arm paw leg foot trunk
lift > raise | obj hand arm paw leg trunk
pet > stroke | obj dog cat horse puppy kitten goat animal cow
stroke > pet | obj dog cat horse puppy kitten goat animal cow
hug > embrace | obj | notobj tree other
embrace > hug | obj
chase > run after | obj | active | by @people dog cat puppy bird
run after > chase
pursue > chase | obj
attempt > try | followed to
try > attempt | followed to
begin > start | followed to
start > begin | followed to
get ready to > prepare to
prepare to > get ready to
assist > help | obj
examine > inspect | obj
inspect > examine | obj
buy > purchase | obj
purchase > buy | obj
board > get on | obj bus train plane airplane boat subway
get on > board | then bus train plane airplane subway
roam > wander | noobj
wander > roam | noobj
sniff > smell | obj
smell > sniff | obj
crouch > squat | noobj | by @people
squat > crouch | noobj | by @people
nap > sleep | noobj
snooze > sleep | noobj
slumber > sleep | noobj
weep > cry | noobj
locate > situate | passive | followed in on near at by next
situate > locate | passive | followed in on near at by next
adorn > decorate | passive
decorate > adorn | passive | followed with
attach > fasten | passive | followed to
fasten > attach | passive | followed to
take a picture of > photograph
take a photo of > photograph
take pictures of > photograph
take photos of > photograph
put on > don | then @clothes
contain > hold | obj | by bowl box basket container jar cup tray vase bucket bag plate
dash > run | noobj
sprint > run | noobj
jog > run | noobj
trek > hike | noobj
select > choose | obj
choose > select | obj
toss around > throw around
collide > crash | followed with
plunge > dive | noobj | followed into
hike up > climb | then hill mountain trail
skate > skateboard | noobj | with skateboard skateboarder skateboards
cheer for > root for
compete in > take part in
participate in > take part in
take part in > participate in
partake in > take part in
consume > eat | obj
utilize > use | obj
purchase from > buy from
gallop > run | noobj | by horse dog zebra
exit > leave | obj building house store train bus plane restaurant room
assemble > gather | noobj
gather > assemble | noobj | by people crowd group man woman | followed in on at outside
congregate > gather | noobj
get dressed > dress
surround > encircle | passive | followed by
line up > queue up | by people crowd
converse with > talk to
speak to > talk to
talk to > speak to
lean against > rest against | by @things bike bicycle surfboard ladder
snuggle > cuddle | noobj
cuddle > snuggle | noobj
embark on > set off on
guide > lead | obj horse dog cow elephant
lead > guide | obj horse dog cow elephant
swing at > take a swing at | then ball baseball pitch
take a swing at > swing at | then ball baseball pitch
"""

_PEOPLE = """
man woman boy girl child kid person people lady guy couple adult toddler player surfer skier
skateboarder student worker officer soldier tourist pedestrian gentleman teenager teen mother
father mom dad friend girls boys crowd group family rider snowboarder hiker cyclist climber baby
"""
_GRAZERS = "cow sheep horse zebra goat bull cattle lamb herd pony ox calf"
_VEHICLES = "train bus car truck boat van tractor trolley tram vehicle bike motorcycle"
_THINGS = """
vase bowl plate cup laptop pizza cake book bottle lamp clock phone box basket sandwich computer
keyboard mouse glass pot pan suitcase bag tray television tv flower fruit food banana apple orange
toy boat car truck hydrant bench chair remote knife fork spoon donut cellphone hat camera pair
umbrella refrigerator toilet sink stove oven microwave table candle meal salad dish drink
"""
_CLOTHES = """
hat shirt jacket dress suit coat uniform cap helmet sweater vest skirt shorts short pants jeans jean
t-shirt costume outfit gown robe tuxedo wetsuit hoodie sweatshirt swimsuit bikini apron scarf tie
blouse jersey kimono sunglasses glasses clothes clothing tank top gloves boots shoes sandals
"""
SYNONYM_VERBS_GROUPS: dict[str, frozenset[str]] = {
    "@people": frozenset(_PEOPLE.split()),
    "@grazers": frozenset(_GRAZERS.split(" ")),
    "@vehicles": frozenset(_VEHICLES.split(" ")),
    "@things": frozenset(_THINGS.split()),
    "@clothes": frozenset(_CLOTHES.split()),
}
"""Names for several words, as conditions use them."""

_NEGATIONS = """
no not never without none nobody nothing nowhere neither nor cannot n't
"""
NEGATIONS = frozenset(_NEGATIONS.split())

_TRUTH_WORDS_NUMBERS = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty
"""
TRUTH_WORDS_NUMBERS: Mapping[str, str] = MappingProxyType(
    {word: str(at) for at, word in enumerate(_TRUTH_WORDS_NUMBERS.split(), start=2)}
    | {"thirty": "30", "forty": "40", "fifty": "50", "hundred": "100", "dozen": "12"}
)
"""From two on: "one" often stands for "a"."""
PAIRS = frozenset(("couple", "pair", "both", "twin", "twins", "duo"))
"""May stand for "two", and need not."""

_COLOURS = """
black white red green blue yellow orange purple violet pink brown grey beige tan gold silver blond
turquoise teal navy maroon crimson scarlet ivory lavender magenta cyan khaki burgundy bronze
"""
_SPELT_OTHERWISE = """
gray: grey
golden: gold
blonde: blond
"""
TRUTH_WORDS_COLOURS: Mapping[str, str] = MappingProxyType(
    {word: word for word in _COLOURS.split()}
    | dict(line.split(": ") for line in _SPELT_OTHERWISE.strip().splitlines())
)

SIDES: Mapping[str, str] = MappingProxyType(
    {
        word: side
        for side, words in {
            "left": "left",
            "right": "right",
            "above": "above over overhead",
            "below": "below under beneath underneath",
            "front": "in_front",
            "behind": "behind",
            "bigger": "bigger larger",
            "smaller": "smaller littler",
            "taller": "taller",
            "shorter": "shorter",
            "older": "older elder",
            "younger": "younger",
        }.items()
        for word in words.split()
    }
)
_TURNED = "left/right above/below front/behind bigger/smaller taller/shorter older/younger"
OPPOSITE_SIDE: Mapping[str, str] = MappingProxyType(
    {
        one: other
        for pair in _TURNED.split()
        for one, other in (pair.split("/"), pair.split("/")[::-1])
    }
)

_OPPOSITES = """
big large huge giant enormous massive / small little tiny mini miniature
biggest largest / smallest littlest
tall high / short low
higher / lower
long / short
longer / shorter
wide broad / narrow
wider broader / narrower
thick / thin
thicker / thinner
fat / thin skinny slim
heavy / light
heavier / lighter
dark / light bright
darker / lighter brighter
young / old elderly aged
new / old used worn
open opened / closed shut
opening opens / closing closes
full filled / empty
wet soaked damp / dry
hot warm / cold cool icy
clean tidy / dirty messy cluttered
happy cheerful / sad unhappy
smiling laughing smiles laughs / crying frowning cries frowns
fast quick quickly / slow slowly
faster / slower
deep / shallow
sharp / blunt dull
smooth / rough bumpy
soft / hard
sunny / cloudy overcast rainy
cooked baked / raw uncooked
dressed clothed / naked nude shirtless
lit / unlit
male man men boy boys gentleman gentlemen guy guys father dad son brother husband / female woman \
women girl girls lady ladies mother mom daughter sister wife
he him his himself / she her hers herself
baby babies child children kid kids toddler boy boys girl girls / adult adults man men woman women
day daytime / night nighttime
morning / evening
inside indoors indoor within / outside outdoors outdoor
in into / out
up upward upwards uphill / down downward downwards downhill
on / off
near close next beside / far distant
standing stands stand stood / sitting sits sit sat seated lying lies lie laying lays
asleep sleeping sleeps / awake
moving moves / still stationary parked
stopped stops stopping / going goes
coming comes / going goes
pushing pushes / pulling pulls
throwing throws / catching catches
entering enters / leaving leaves exiting exits
ascending ascends climbing climbs / descending descends
arriving arrives / departing departs
landing lands / flying flies
more / less fewer
most / least fewest
many several numerous / few
all every / some none
first / last
top / bottom
front / back rear
before / after
same / different
alone / together
alive / dead
real / fake toy stuffed
"""


def _poles(text: str) -> Mapping[str, tuple[tuple[int, int], ...]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for line, pair in enumerate(text.replace("\\\n", "").strip().splitlines()):
        for pole, words in enumerate(pair.split(" / ")):
            for word in words.split():
                found.setdefault(word, []).append((line, pole))
    return MappingProxyType({word: tuple(places) for word, places in found.items()})


POLES = _poles(_OPPOSITES)
"""For each word the lines of opposites in which it stands, with its side of the line, 0 or 1."""
