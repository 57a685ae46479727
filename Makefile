# Two commands for a fresh machine with Python >= 3.11 and make:
#   make demo   sets up, imports the sample traces, opens the dashboard on http://127.0.0.1:8501
#   make test   sets up, runs every test
PYTHON ?= python3
VENV   ?= .venv
PORT   ?= 8501
OTLP_PORT ?= 4318
OTLP_GRPC_PORT ?= 4317
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test check bench bench-large soak docs setup clean help

help:
	@echo "make demo    set up, import the sample traces, open the dashboard"
	@echo "make test    set up, run every test (browser tests need Chromium: apt-get install chromium)"
	@echo "make check   lint, format, types, docs"
	@echo "make bench   measurements, each as a ratio against a baseline of the same run"
	@echo "make bench-large  memory and disk: a backlog of a million spans, imports of 2 GB (an hour, 12 GB of disk)"
	@echo "make soak    agents killed at random, a server and commands on one file: is anything lost?"
	@echo "make docs    write the generated parts of docs/ again"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Loopscope needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "Could not make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }

# The constraints file holds the versions that were tested; an installed set is kept until it changes.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV) (about a minute) …"
	@$(PIP) install -q -c constraints.txt -e '.[dashboard]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV) (about a minute) …"
	@$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo

setup: $(VENV)/.dev

demo: $(VENV)/.demo
	$(BIN)/loopscope demo --port $(PORT) --otlp-http-port $(OTLP_PORT) --otlp-grpc-port $(OTLP_GRPC_PORT)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist loadfile

# The packages import each other as loopscope.*, which the type checker finds through links.
build/typed/loopscope: pyproject.toml
	@mkdir -p $@
	@for p in guard collector replay dashboard cli sample_traces; do ln -sfn ../../../$$p $@/$$p; done
	@touch $@

check: $(VENV)/.dev build/typed/loopscope
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python docs/check.py

docs: $(VENV)/.dev
	$(BIN)/python docs/make_cli_docs.py
	$(BIN)/python docs/make_providers_docs.py
	$(BIN)/python docs/make_refusals_docs.py
	$(BIN)/python docs/make_rules_docs.py

bench: $(VENV)/.dev
	@for b in benchmarks/bench_*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

bench-large: $(VENV)/.dev
	$(BIN)/python benchmarks/bench_fold.py --only tools --spans 1000000
	$(BIN)/python benchmarks/bench_import.py --megabytes 2048 --once

soak: $(VENV)/.dev
	$(BIN)/python benchmarks/soak_writers.py
	$(BIN)/python benchmarks/soak_writers.py --forked

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis
