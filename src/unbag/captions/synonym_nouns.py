"""Nouns of captions and other nouns for the same things, with what each exchange needs.

A line is `old > new`, or `old = new` for both ways, and conditions after bars; `synonym_table`
says what they mean. Left out is what only sometimes names the same: road for street, canine for
dog, jet for plane.
"""

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
