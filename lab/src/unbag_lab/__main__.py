"""Scripts of the study: `python -m unbag_lab NAME`, each with its own --help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from unbag.errors import UnbagError, unknown_name

SCRIPTS = {
    "pretrain": ("unbag_lab.bases:pretrain_script", "train one base"),
    "arms": ("unbag_lab.running:arms_script", "arms of one experiment on bases of your own"),
    "tables": ("unbag_lab.pages.tables:tables_script", "tables of repairs and read-outs"),
    "ship": ("unbag_lab.experiments.readouts:ship_head_script", "write a trained head for release"),
    "photos": ("unbag_lab.experiments.photos_training:photos_script", "the photo model, repaired"),
    "photos-heads": (
        "unbag_lab.experiments.photos_heads:photos_heads_script",
        "order precision and mixed weights of its heads, and readers that see no photograph",
    ),
    "photos-table": ("unbag_lab.experiments.photos_training:photos_table_script", "tables of all"),
    "join": ("unbag_lab.results:join_script", "run folders into the results that ship"),
    "published-checks": (
        "unbag_lab.published_checks:published_checks_script",
        "what does not add up in published numbers",
    ),
}


def main(arguments: Sequence[str]) -> None:
    """Run the script named by the first argument with the remaining arguments."""
    name, *script_arguments = arguments or ["--help"]
    if name in {"-h", "--help"}:
        print(__doc__ and __doc__.strip(), end="\n\n")
        print("\n".join(f"  {name:16} {about}" for name, (_, about) in SCRIPTS.items()))
        return
    if name not in SCRIPTS:
        raise unknown_name("script", name, SCRIPTS, hint="python -m unbag_lab lists them")
    module, _, function = SCRIPTS[name][0].partition(":")
    sys.argv = [f"python -m unbag_lab {name}", *script_arguments]
    getattr(import_module(module), function)()


def run_script(script: Callable[[], None]) -> None:
    """Run a script and exit with the exit codes of `unbag`."""
    try:
        script()
    except UnbagError as error:
        sys.exit(f"unbag: {error}")
    except KeyboardInterrupt:
        print("unbag: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run_script(lambda: main(sys.argv[1:]))
