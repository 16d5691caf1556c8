# Every target sets up what it needs in .venv, from nothing but Python 3.11 or newer.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo tour test test-slow bench bench-quick lint format docs clean

# The first Python that is new enough; set PYTHON to choose another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo ## Sentences compared by a real model, timed against ONNX Runtime.
	$(BIN)/python examples/sentences.py

tour: $(VENV)/.viz ## A matmul with a symbolic dimension: print, parse, interpret, compile.
	$(BIN)/python examples/representation.py

test: $(VENV)/.test ## The tests that take seconds, with the examples of the docs.
	$(BIN)/python -m pytest -q -n $(JOBS)

test-slow: $(VENV)/.test ## The tests with tens of thousands of random cases.
	$(BIN)/python -m pytest -q -n $(JOBS) -m slow tests

# Whole models, decoders of texts, operators.
SUITES := bench/networks.py bench/decoders.py bench/operators.py
# More options for them, such as OPTIONS='--peers onnxruntime openvino --resume'.
OPTIONS ?=
MEASURE := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(BIN)/python

bench: $(VENV)/.bench ## Everything against every peer, on 1 and 2 threads, into the docs. Hours.
	$(BIN)/python bench/compiler.py
	@set -e; for s in $(SUITES); do echo "$$s"; $(MEASURE) $$s --cold --dynamic-cost $(OPTIONS); done
	$(BIN)/python bench/report.py --update --html bench/results/report.html

bench-quick: $(VENV)/.bench-quick ## Some models and operators against some peers, within five minutes.
	@set -e; for s in $(SUITES); do echo "$$s"; $(MEASURE) $$s --quick --rounds 4 --seconds 0.2 \
		--peers onnxruntime openvino torch numpy --json bench/results/quick/$$(basename $$s .py).json; done
	$(BIN)/python bench/report.py bench/results/quick/*.json --html bench/results/quick/report.html

lint: $(VENV)/.lint ## Style, types, import order, sizes.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_house_rules.py

format: $(VENV)/.lint ## Format the code and sort its imports.
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs ## Build the pages of docs/ into site/.
	$(BIN)/mkdocs build --strict --quiet

clean: ## Remove what the other targets made.
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A stamp for each set of dependencies: newer than pyproject.toml when they are installed.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
