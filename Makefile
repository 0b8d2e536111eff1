# ppe: every command a reader needs. `make help` lists them.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PROFILE ?= full
WORKERS ?= 2
# The first interpreter of at least 3.11 wins; `make PYTHON=/path/to/python3.12 …` overrides.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# $(call install,WHAT): by uv, which takes a tenth of the time of pip, and by pip where there is no uv or uv fails.
install = { test -x $(BIN)/uv && $(BIN)/uv pip install --quiet --python $(BIN)/python $(1); } || $(PIP) install --quiet $(1)
# One thread per kernel: two notebooks run at a time, and results do not depend on the thread count.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# What is installed is compiled when it is first imported, so each import must be able to keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup paper verify pdf site demo test lint check bench bench-llm peers lock export notebooks clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/dev.stamp ## create .venv with everything (library, notebooks, tests, benchmarks)

paper: .venv/paper.stamp ## run the paper's notebooks in place: nbs/, figures/ (PROFILE=quick: build/quick/; SCHEDULER=tcp://…: on Dask; VERDICTS=my.csv REFERENCE=ref.csv: on your own, build/mine/)
	@$(BIN)/ppe paper run --profile $(PROFILE) --workers $(WORKERS) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(if $(VERDICTS),--verdicts "$(VERDICTS)") $(if $(REFERENCE),--reference "$(REFERENCE)") $(if $(OUT),--out "$(OUT)")

verify: .venv/paper.stamp ## the full profile again, in build/verify/: does it come out as published? (half an hour; resumable)
	@$(BIN)/ppe paper run --profile verify --workers $(WORKERS) && echo "all is as published"

pdf: .venv/paper.stamp ## all figures and tables with questions, answers and captions as one document: build/ppe.pdf
	@$(BIN)/ppe paper book --profile $(PROFILE)

site: .venv/dev.stamp ## the repository as a book, offline: build/site/index.html (npm fetches MathJax once)
	@$(BIN)/python site/make_site.py

demo: .venv/llm.stamp ## the LLM stages from questions to a ranking, with a tiny model on this machine (ten minutes or more)
	@OMP_NUM_THREADS=2 $(BIN)/python demo/run.py

test: .venv/dev.stamp ## tests/ and the stage notebooks, restarted and run; SLOW=1 runs the slow ones too
	$(BIN)/python -m pytest -n 2 --dist worksteal $(if $(filter 1,$(SLOW)),,-m "not slow")

lint: .venv/dev.stamp ## ruff and mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy

check: SLOW := 1
check: lint test ## ruff, mypy and all tests, the slow ones too

bench: .venv/dev.stamp ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/bench.py

bench-llm: .venv/dev.stamp ## the judging stage at full scale against a server on this machine (some minutes)
	$(BIN)/python benchmarks/bench_llm.py

peers: build/peers/stamp ## limits of other tools on halves of the public sets: data/peers.csv.gz, in an environment of their own (some five minutes of processor)
	PYTHONPATH=. build/peers/bin/python benchmarks/peers/peers.py

export: .venv/dev.stamp ## format the notebooks, write ppe/ from them, and clean them
	$(BIN)/ruff format --quiet nbs && $(BIN)/nbdev_export && $(BIN)/nbdev_clean && $(BIN)/python tests/stage_notebooks.py --number

notebooks: .venv/dev.stamp ## restart and run all stage notebooks in place, then export and clean
	$(BIN)/nbdev_export && $(BIN)/python tests/stage_notebooks.py
	$(BIN)/nbdev_clean && $(BIN)/python tests/stage_notebooks.py --number

# nbdev needs fastcore below 2, the library runs with either: a constraint of the lock alone, since uv would read one of
# pyproject.toml in `make setup` too and refuse it there as unpinned.
lock: .venv/bin/python ## recompile requirements*.txt from pyproject.toml
	printf 'fastcore<2\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --extra paper --constraints - pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --extra paper --extra site --extra cluster --extra api --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt
	printf 'torch; python_version < "3"\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --extra llm --overrides - -c requirements-dev.txt pyproject.toml -o requirements-llm.txt

clean: ## remove build products (not .venv)
	rm -rf build .pytest_cache .ruff_cache .hypothesis

# The lock names the uv that installs the rest of it. An index of one's own is known to pip alone, so then pip does it all.
.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "ppe needs Python 3.11 or newer; none found on PATH. Install one or call: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "ppe needs Python 3.11 or newer, and $(PYTHON) is not, or does not run; call: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	@$(PIP) config list | grep -qE '\.(index-url|no-index)=' || { sed -n '/^uv==/,/[^\]$$/p' requirements-dev.txt > .venv/uv.txt && \
	  $(PIP) install --quiet --no-deps --require-hashes -r .venv/uv.txt 2> /dev/null; } || echo "no uv for this machine: pip installs, which takes some minutes"

.venv/paper.stamp: requirements.txt pyproject.toml | .venv/bin/python
	$(call install,--require-hashes -r requirements.txt)
	$(call install,--no-deps --no-build-isolation -e .)
	@touch $@

build/peers/stamp: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes -r $<
	@touch $@

# torch comes first and unhashed: which build is right depends on the machine, and pip may be told of an index of CPU builds.
.venv/llm.stamp: requirements-llm.txt demo/requirements.txt .venv/paper.stamp
	$(PIP) install --quiet torch==2.13.0
	$(call install,--no-deps --require-hashes -r requirements-llm.txt)
	$(call install,--no-deps --require-hashes -r demo/requirements.txt)
	@touch $@

.venv/dev.stamp: requirements-dev.txt .venv/paper.stamp
	$(call install,--require-hashes -r requirements-dev.txt)
	@touch $@
