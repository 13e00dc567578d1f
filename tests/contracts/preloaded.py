"""What the jobs of the contract import and read, once: their processes are forks of this one."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from unbag.edits import parsing

for _module in (
    "unbag.cli.console",
    "unbag.edits.jobs.run",
    "unbag.evaluation.run",
    "unbag.probes.diagnosis.page",
    "unbag.readouts.decoder.readout",
    "unbag.training.before_after",
    "unbag.training.recipes",
    "unbag.training.repair",
    "torch._dynamo",
    # Those of this folder, which a process would import when it is given its task.
    "_pytest.config",
    "tests.contracts.jobs",
    "scipy.stats",
    "sklearn.linear_model",
    "pyarrow.parquet",
    "jinja2",
    "cattrs",
    "rich.progress",
):
    import_module(_module)
for _module in ("unbag.readouts.vlm2vec.readout", "transformers.models.llava.modeling_llava",
                "peft", "unbag_lab.running", "unbag_lab.experiments.repair"):  # fmt: skip
    try:
        import_module(_module)
    except ImportError:
        # Not installed here; the jobs that need it are skipped.
        continue

parsing.load_pipeline = cache(parsing.load_pipeline)
parsing.quicken = cache(parsing.quicken)
if parsing.find_installed() is not None:
    parsing.find_parser()
