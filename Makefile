# Two commands for a new machine: `make demo` and `make test`. Each makes its own virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto

.PHONY: demo test long lint docs bench kill lose fuzz mutants calibrate clean

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tallies needs Python 3.11 or newer, this is %s; try: make PYTHON=python3.12" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

# one stamp for each set of extras: nothing is installed twice until pyproject.toml changes
$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test $(VENV)/.lint $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/tallies demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS)

# further cases of what `make test` has one or two of: cold starts, peaks of memory, clusters, settings
long: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) -m long

# long campaigns, of which `make test` runs samples: see docs/trust.md
POINTS ?= 500
FILES ?= 5000
CASES ?= 10000
SEED ?= 0
kill: $(VENV)/.test
	$(BIN)/python tests/killing.py --points $(POINTS) --seed $(SEED)
	$(BIN)/python tests/killing.py --points $(POINTS) --seed $(SEED) --full

# kills of workers of a Dask cluster
KILLS ?= 20
lose: $(VENV)/.test
	$(BIN)/python tests/losing.py --kills $(KILLS) --seed $(SEED)

fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzzing.py --cases $(CASES) --seed $(SEED)
	$(BIN)/python tests/broken_files.py --files $(FILES) --seed $(SEED)
	$(BIN)/python tests/tampering.py --files $(FILES) --seed $(SEED)
	$(BIN)/python tests/tampering.py --files $(FILES) --seed $(SEED) --checkpoints

# small wrongs put into a copy of the package, one at a time, for the tests to notice: ROOM=counts for those of one room
JOBS ?= 2
ROOM ?=
mutants: $(VENV)/.test
	$(BIN)/python tests/mutants.py --jobs $(JOBS) $(if $(ROOM),--room $(ROOM))

# simulated data, to see whether posteriors, errors and intervals mean what they say
calibrate: $(VENV)/.test
	$(BIN)/python tests/calibration.py --seed $(SEED)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# all families beside their rivals: NAMES="pln zeros" for some, DATA=folder for those whose data are not built in, QUICK=1 to see that they run
NAMES ?=
DATA ?=
QUICK ?=
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/bench.py run $(NAMES) $(if $(DATA),--data $(DATA)) $(if $(QUICK),--quick)

clean:
	rm -rf $(VENV) demo docs/_build
