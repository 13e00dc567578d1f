"""Nouns of captions by what they name: people, animals, stuff, groups, pictures, near-synonyms.

Lemmas, in lower case. Written for captions of photographs; a word that is missing makes a rule
decline or be less strict, never fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


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
