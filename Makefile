# `make train` and `make test` are all a fresh clone needs: the first makes a private .venv with the tested versions.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PYTEST := $(BIN)/pytest -n 2 --dist worksteal
TASK ?= dmc/walker-stand
ARGS ?=

# A dozen short runs; `make report-demo DEMO_PRESETS='simbav2 simba sac'` compares other methods.
DEMO ?= runs/report-demo
DEMO_PRESETS ?= simbav2 paper quick
DEMO_TASKS ?= dmc/cartpole-swingup mujoco/Hopper-v4
DEMO_SEEDS ?= 0 1
DEMO_ARGS ?= --env-steps 2000 --warmup-decisions 250 --actor.width 16 --critic.width 16 --schedule.log-every 250 \
  --schedule.evaluate-every 500 --schedule.evaluation-episodes 2

.PHONY: help install train report-demo test test-all test-interop chaos lint types format bench docs clean

help:
	@echo "make train    train SimbaV2 on $(TASK) with the preset 'quick' (TASK=..., ARGS='--seed 1 ...')"
	@echo "make report-demo   a dozen short runs and a report of them"
	@echo "make test     lint, types, and a test of every behaviour (5 minutes on two cores)"
	@echo "make test-all   and all methods, tasks and commands of the docs (25 minutes)"
	@echo "make test-interop   our agents with Stable-Baselines3, in an environment of its own (.venv-interop)"
	@echo "make chaos    kills, damaged files, a full disk and a long soak (hours; figures in chaos.json)"
	@echo "make docs     the documentation as a site, in site/index.html"
	@echo "make lint | types | format | bench | install | clean"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "simbav2 needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 2; }
	@echo "making the environment in .venv (a few minutes)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,hub,myosuite,offline,onnx,ray,tensorboard,video,wandb]'
	@touch $@

train: $(INSTALLED)
	@$(BIN)/simbav2 train $(TASK) --preset quick $(ARGS)

report-demo: $(INSTALLED)
	@set -e; for preset in $(DEMO_PRESETS); do for task in $(DEMO_TASKS); do for seed in $(DEMO_SEEDS); do \
	  run=$(DEMO)/$$(basename $$task)-$$preset-$$seed; \
	  test -f $$run/summary.json \
	    || $(BIN)/simbav2 train $$task --preset $$preset --seed $$seed --out $$run --overwrite $(DEMO_ARGS); \
	done; done; done
	@$(BIN)/simbav2 report $(DEMO) --out $(DEMO)-page

# Numbers are tested with the compiler settings that users have, the rest with faster ones (tests/conftest.py).
test: lint types
	$(PYTEST) -m "not numerics and not full"
	$(PYTEST) -m "numerics and not full"

test-all: lint types
	$(PYTEST) -m "not numerics"
	$(PYTEST) -m "numerics"

# PyTorch first and by itself: the other packages then find it there, and leave it as it is.
test-interop: .venv-interop/.installed
	.venv-interop/bin/python -m pytest tests/test_interop_sb3.py \
	  tests/test_docs.py::test_python_for_other_packages_runs_where_they_are

.venv-interop/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-interop
	.venv-interop/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-interop/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e '.[dev]' 'stable-baselines3>=2.7,<3'
	touch $@

chaos: $(INSTALLED)
	$(BIN)/python tests/chaos/run.py $(ARGS)

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

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf .venv .venv-interop site
