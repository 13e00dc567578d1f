"""A script comes in; it is run, and what its user can mend is told without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from unbag.errors import UserError


def run_script(main: Callable[[], None]) -> None:
    """For `python -m`; ends the process with the codes of the command line."""
    try:
        main()
    except UserError as error:
        sys.exit(f"unbag: {error}")
    except KeyboardInterrupt:
        print("unbag: stopped", file=sys.stderr)
        sys.exit(130)
