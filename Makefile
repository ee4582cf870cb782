# Two commands set everything up by themselves and need nothing but Python 3.11 or later, with venv:
#   make demo   the main job on a made-up workload: generate, ingest, replay
#   make test   all checks and tests

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := build/demo
# PostgreSQL refuses to run as root, and whom it runs as instead cannot enter a checkout below /root.
ROOTS  := /var/lib/softwalltime
DATA   := $(if $(filter 0,$(shell id -u)),$(ROOTS)/demo,$(DEMO)/data)

.PHONY: demo test lint bench deb rpm clean

demo: $(VENV)/.user
	rm -rf $(DEMO) $(DATA)
	$(BIN)/softwalltime generate $(DEMO)/accounting --jobs 20000 --seed 1
	$(BIN)/softwalltime ingest $(DEMO)/accounting --data-dir $(DATA)
	$(BIN)/softwalltime replay store --data-dir $(DATA)

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/.developer
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.developer
	$(BIN)/python -m tests.benchmarks

# A package for this system, with its Python, in build/packages.
deb rpm: | $(VENV)
	PIP=$(BIN)/pip deploy/packages/build $@

clean:
	rm -rf $(VENV) build dist $(DATA)
	@if [ -w $(ROOTS) ]; then rm -rf $(ROOTS)/postgresql-* && rmdir --ignore-fail-on-non-empty $(ROOTS); fi

$(VENV)/.user: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded]'
	touch $@

$(VENV)/.developer: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded]' --group dev
	touch $@

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
