"""Every shape of the world by name, as a region of the square [-1, 1] x [-1, 1]."""

from unbag.world.shapes_living import LIVING
from unbag.world.shapes_objects import OBJECTS
from unbag.world.shapes_region import Region
from unbag.world.shapes_signs import SIGNS
from unbag.world.shapes_tools import TOOLS

FIGURES: dict[str, Region] = {**SIGNS, **OBJECTS, **TOOLS, **LIVING}
