# The commands of this project. `make demo` and `make test` need Python (3.11 or newer) and make, nothing else:
# they create .venv and install into it. Run again, they install only when pyproject.toml or
# constraints.txt has changed.

PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
BASE := $(VENV)/.base-installed
DEV := $(VENV)/.dev-installed

.PHONY: help demo lint types test test-all bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      install Zishu for users and show what it does"
	@echo "make test      install it for developers; linter, type checker, tests"
	@echo "make test-all  the slow tests, too"
	@echo "make bench     measure the speed of the chart and of training"
	@echo "make clean     remove .venv and all that tools have left behind"

# Stamps, written when a step has ended well: what was interrupted is done again.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(BASE): pyproject.toml constraints.txt $(VENV)/.created
	$(PIP) --editable .
	@touch $@

$(DEV): pyproject.toml constraints.txt $(VENV)/.created
	$(PIP) --editable '.[dev]'
	@touch $(BASE) $@

demo: $(BASE)
	$(BIN)/zishu stats examples/sample.conllu
	$(BIN)/zishu eval examples/sample.conllu examples/prediction.conllu
	$(BIN)/python examples/chart.py

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

test: lint types
	$(BIN)/pytest -n $(WORKERS) -m "not slow"

test-all: lint types
	$(BIN)/pytest -n $(WORKERS)

bench: $(DEV)
	$(BIN)/python bench/chart.py
	@if [ -f bench/train.py ]; then $(BIN)/python bench/train.py; fi

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
