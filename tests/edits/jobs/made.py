"""Small collections of captions on disk, and jobs over them, for several test files."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unbag.data.captions import Source
from unbag.data.readers import form_of
from unbag.edits.jobs.run import EditJob, EditSummary, run_edit
from unbag.edits.jobs.workers import InProcess

from .swapper import make

DOG, CAT, CUP = "a dog on a sofa", "a cat on a mat", "a cup by a plate"
KINDS = ("swap_nouns",)


def source(path: Path, **more: str | bool | int) -> Source:
    """The collection in a file, in the form of its suffix."""
    return Source(str(path), form_of(str(path), ""), **more)  # type: ignore[arg-type]


def shard(path: Path, files: dict[str, bytes], *, folder: str = "") -> Path:
    """Write a tar file of these members, after an empty folder if one is named."""
    with tarfile.open(path, "w") as tar:
        if folder:
            directory = tarfile.TarInfo(folder)
            directory.type = tarfile.DIRTYPE
            tar.addfile(directory)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), 1_234, 0o600
            tar.addfile(info, io.BytesIO(content))
    return path


def json_lines(path: Path, *records: Mapping[str, object]) -> Path:
    """Write one record per line."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def run(path: Path, out: Path, **more: Any) -> EditSummary:
    """Edit it in chunks of two captions, without a parser."""
    options = {name: more.pop(name) for name in ("limit", "skips_bad") if name in more}
    form = more.pop("form", "") or form_of(str(out), "")
    job = EditJob(source(path, **options), out, form=form, kinds=KINDS, chunk=2, **more)
    return run_edit(job, runner=InProcess(make))
