# These two commands set up everything and need only Python 3.11 or later, with venv:
#   make demo   generate a synthetic workload, ingest it, replay it
#   make test   run all checks and tests

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
comma  := ,
DEMO   := build/demo
EXTRAS := embedded,report,web
PICTURE := deploy/pictures/report.png
CHROMIUM ?= chromium
# A file's tests run in one process, and so do those that share packages and machines (tests/conftest.py).
PYTEST := -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadgroup --no-loadscope-reorder

.PHONY: demo test lint traces coverage lowest lock locked bench docs pictures deb rpm dist clean

demo: $(VENV)/.user
	rm -rf $(DEMO)
	$(BIN)/softwalltime generate $(DEMO)/accounting --jobs 20000 --seed 1
	cp deploy/demo.toml $(DEMO)/softwalltime.toml
	$(BIN)/softwalltime ingest $(DEMO)/accounting --data-dir $(DEMO)/data
	$(BIN)/softwalltime replay store --data-dir $(DEMO)/data

# Tests start hundreds of processes, which would all compile the package again.
test: export PYTHONDONTWRITEBYTECODE :=
test: lint
	$(BIN)/python $(PYTEST)

lint: $(VENV)/.developer
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The recorded traces that some tests replay.
traces: $(VENV)/.developer
	$(BIN)/python -m tests.traces fetch

# Lines and branches that TESTS run, all tests if it is empty: make coverage TESTS='tests/policy tests/accounting'
coverage: $(VENV)/.developer
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -q $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# All tests with the lowest versions that pyproject.toml allows, in an environment of their own.
lowest: $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct --editable '.[$(EXTRAS)]' --group dev
	PATH=$(CURDIR)/build/lowest/bin:$$PATH build/lowest/bin/python $(PYTEST)

# Renew the versions in requirements-dev.txt with the newest that pyproject.toml allows, for all Python versions.
lock: $(BIN)/uv
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-annotate \
	  --custom-compile-command 'make lock' --python-version 3.11 --group dev \
	  $(patsubst %,--extra %,$(subst $(comma), ,$(EXTRAS))) --output-file requirements-dev.txt pyproject.toml

# Install those versions: make locked test
locked: | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $(VENV)/.developer $(VENV)/.user

bench: $(VENV)/.developer
	$(BIN)/python -m tests.benchmarks

# The documents as a site in build/site; a broken link fails.
docs: $(VENV)/.developer
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The picture of the README, from the demo's jobs; few colors make it a third of the size.
pictures: demo $(VENV)/.pictures
	$(BIN)/softwalltime report $(DEMO)/accounting -o $(DEMO)/report.html
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,830 \
	  --screenshot=$(CURDIR)/$(PICTURE) file://$(CURDIR)/$(DEMO)/report.html
	$(BIN)/python -c 'import sys; from PIL import Image; image = Image.open(sys.argv[1]).convert("RGB"); \
	  image.quantize(64).save(sys.argv[1], optimize=True)' $(PICTURE)

# Build packages for this system and its Python in build/packages.
deb rpm: | $(VENV)
	PIP=$(BIN)/pip deploy/packages/build $@

# What a release consists of, in dist: sdist, the wheel built from it, and a CycloneDX list of what the wheel installs.
dist: $(BIN)/uv
	rm -rf dist build/dist
	$(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist
	$(BIN)/uv venv --quiet --python $(BIN)/python build/dist
	$(BIN)/uv pip install --quiet --python build/dist/bin/python "$$(echo dist/*.whl)[binary,report]"
	$(BIN)/uv tool run --quiet --from 'cyclonedx-bom>=7,<8' cyclonedx-py environment --output-reproducible \
	  --output-file dist/sbom.cdx.json build/dist

clean:
	rm -rf $(VENV) build dist

$(VENV)/.user: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@

$(VENV)/.developer: pyproject.toml | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' --group dev
	touch $@

# Only the picture needs it.
$(VENV)/.pictures: | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pillow>=11,<13'
	touch $@

$(BIN)/uv: | $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
