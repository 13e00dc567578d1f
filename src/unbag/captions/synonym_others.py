"""Adjectives, prepositions and set phrases that say the same, with what each exchange needs.

The form of lines is that of `synonym_nouns`. Phrases are taken as they stand, without inflection.
"""

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
