# `make train` and `make test` are all a fresh clone needs: the first makes a private .venv with the tested versions.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
TASK ?= dmc/walker-stand
ARGS ?=

.PHONY: help install train test test-slow lint types format bench clean

help:
	@echo "make train    train SimbaV2 on $(TASK) with the preset 'quick' (TASK=..., ARGS='--seed 1 ...')"
	@echo "make test     lint, types and tests"
	@echo "make test-slow   the tests that take minutes"
	@echo "make lint | types | format | bench | install | clean"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "simbav2 needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 2; }
	@echo "making the environment in .venv (about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,myosuite,video]'
	@touch $@

train: $(INSTALLED)
	@$(BIN)/simbav2 train $(TASK) --preset quick $(ARGS)

test: lint types
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: $(INSTALLED)
	$(BIN)/pytest -m slow

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED)
	$(BIN)/simbav2 bench

clean:
	rm -rf .venv
