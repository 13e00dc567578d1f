"""Verbs of captions and verbs that say the same, with what each exchange needs.

The form of lines is that of `synonym_nouns`; verbs stand in their base form, and the first word
of the new ones is inflected as the old was.
"""

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
GROUPS: dict[str, frozenset[str]] = {
    "@people": frozenset(_PEOPLE.split()),
    "@grazers": frozenset(_GRAZERS.split(" ")),
    "@vehicles": frozenset(_VEHICLES.split(" ")),
    "@things": frozenset(_THINGS.split()),
    "@clothes": frozenset(_CLOTHES.split()),
}
"""Names for several words, as conditions use them."""
