"""Words that decide whether left, front, above or near name a place, and what then excludes it."""

from __future__ import annotations

from types import MappingProxyType


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
