"""So that `python -m unbag` works where the script is not on the path."""

import sys

from unbag.cli import main

sys.exit(main())
