# Every target builds what it needs: a clone, Python 3.11 or later and make are enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# Tests run one worker per core, so each worker keeps BLAS to one thread.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Tests of one group share a worker: those of the engines start Spark and PostgreSQL once.
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest --numprocesses auto --dist loadgroup

.PHONY: help demo test test-all setup bench audit docs check clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.core ## publish a synthetic town of 200,000 people, privately
	@$(BIN)/leastnoise demo

test: $(VENV)/.dev check ## lint, types and the quick tests, on the light core: three minutes on two cores
	$(PYTEST) -m "not thorough"

test-all: $(VENV)/.all check ## every test, with every extra, Java and PostgreSQL; nothing may be skipped
	LEASTNOISE_ALL_EXTRAS=1 $(PYTEST)
	@$(MAKE) --no-print-directory docs

check:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(VENV)/.all ## a development environment with every extra

bench: $(VENV)/.dev ## the benchmarks, as tables
	@for script in release data; do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done
	@echo "== solver, smallest sizes; benchmarks/cuda*.py need a GPU"; $(BIN)/python benchmarks/solver.py --quick

audit: $(VENV)/.dev ## the checks of privacy at full size, as a table: about 15 minutes
	@$(ONE_THREAD) $(BIN)/python tests/audit_stress.py

docs: $(VENV)/.docs ## the documentation, in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean: ## remove what the other targets made
	rm -rf $(VENV) docs/_build build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "leastnoise needs Python 3.11 or later; try: make PYTHON=python3.11"; exit 1; }
	@echo "creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "Python has no venv module here; on Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing leastnoise ..."
	@# Python compiles what it imports: compiling all of SciPy and pandas first takes longer than the demo.
	@$(PIP) --no-compile --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing leastnoise and the test tools ..."
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing leastnoise and the documentation tools ..."
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.core

$(VENV)/.all: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing leastnoise with every extra ..."
	@$(PIP) --editable '.[all]'
	@touch $@ $(VENV)/.core $(VENV)/.dev $(VENV)/.docs
