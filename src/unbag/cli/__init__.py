"""The command line. Kept light: each command imports what it needs when it runs."""

from unbag.cli.main import main

__all__ = ["main"]
