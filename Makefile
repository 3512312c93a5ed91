# Two commands a new user needs: `make demo` and `make test`. Everything else is listed by `make help`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
STAMP := $(VENV)/.installed
PROCGEN_PACKAGES := libqt5gui5
CHROMIUM_PACKAGES := chromium

.PHONY: help demo test test-peers check setup debian bench envs learn results fuzz soak mutations calibrate calibrate-groups house quick lint docs dist clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(BASE)  ## how should 1,024 Pendulum samples be split into N × T? (a few minutes)
	$(BIN)/python -m benchmarks.demo

test: setup debian check docs  ## set up, check, build the documentation and run the tests
	$(BIN)/python -m pytest

QUICK := errors reading returns objectives ewma minibatch normalize prng stats estimate quantities wording config options \
  architecture light optimizer surrogates mutations
quick: setup  ## lint, types and the tests that take seconds, for use while editing (under a minute)
	$(BIN)/ruff check --quiet src tests benchmarks docs
	$(BIN)/mypy
	$(BIN)/python -m pytest -q $(foreach name,$(QUICK),$(wildcard tests/test_$(name).py))

check: setup  ## formatting, lint and types
	$(BIN)/ruff format --check --quiet src tests benchmarks docs
	$(BIN)/ruff check --quiet src tests benchmarks docs
	$(BIN)/mypy

setup: $(STAMP)

# What a user needs, for the demo; everything, for development.
$(BASE): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null 2>&1 && py=$(PYTHON) || py=python3; \
	  test -x $(BIN)/python || "$$py" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $(BASE)

$(STAMP): $(BASE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $(STAMP)

# EnvPool's Procgen needs Qt; the page tests need a browser. Installed only where missing and only where apt and root are at hand.
debian:
	@missing=""; \
	for package in $(PROCGEN_PACKAGES) $(CHROMIUM_PACKAGES); do \
	  dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "please install Debian packages:$$missing"; exit 1; fi; \
	fi

bench: setup  ## measure against Stable-Baselines3 and write docs/results/bench.json
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.gradients
	$(BIN)/python -m benchmarks.impala

test-peers: setup  ## test the adapters with PyTorch, SB3, rsl_rl and skrl (large downloads) and write docs/results/peers.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'
	$(BIN)/python -m benchmarks.peers

envs: setup  ## step every environment, train one of each kind, and write docs/results/environments.md
	$(BIN)/python -m benchmarks.environments

learn: setup  ## train every preset on its seeds (hours; ROWS=CartPole-v1,Hopper-v4 for some) and write docs/results/learning.md
	out=runs/results/learning; \
	test -f $$out/study.json && $(BIN)/trimtab resume $$out || \
	  $(BIN)/trimtab study run learning --full $(if $(ROWS),--only $(ROWS)) --run-dir $$out --store runs/results/store
	$(BIN)/python docs/publish.py runs/results/learning

results: setup  ## run every study of the sources at its quick size, and write their pages in docs/results
	@for name in $$($(BIN)/trimtab study list --names); do \
	  out=runs/results/$$(echo $$name | tr / -); \
	  test -f $$out/study.json && $(BIN)/trimtab resume $$out || \
	    $(BIN)/trimtab study run $$name --quick --run-dir $$out --store runs/results/store || exit 1; \
	done
	$(BIN)/python docs/publish.py runs/results

FUZZED := files commands kills configurations
FUZZ := $(BIN)/python -m benchmarks.fuzz
fuzz: setup  ## damage files, kill processes and draw configurations for minutes; adds to docs/results/robustness.md
	@for tool in $(FUZZED); do $(FUZZ) $$tool --seconds 120 || exit 1; done

soak: setup  ## the same for hours, with bad disks, busy stores, lost Ray nodes, a million iterations and 5,000 runs
	@for tool in shared-store many-jobs view; do $(FUZZ) $$tool --count 1 --seconds 3600 || exit 1; done
	@for tool in $(FUZZED) configurations-by-command disks killed-studies ray-nodes; do $(FUZZ) $$tool --seconds 3600 || exit 1; done
	$(FUZZ) memory --count 1 --seconds 7200

mutations: setup  ## break estimators on purpose and see which test goes red
	$(BIN)/python -m benchmarks.mutations

calibrate: setup  ## check every interval against exact answers and write docs/results/calibration.md
	$(BIN)/python -m benchmarks.calibrate

calibrate-groups: setup  ## check the intervals of groups against enumerated strings and write docs/results/calibration-groups.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.calibrate_groups

house: setup  ## the size and shape of the source (BEFORE=REV for a commit beside it)
	$(BIN)/python -m benchmarks.house $(if $(BEFORE),--before $(BEFORE))

lint: setup  ## format and lint
	$(BIN)/ruff format src tests benchmarks docs && $(BIN)/ruff check --fix src tests benchmarks docs

docs: setup  ## the documentation site, in site/; a link that leads nowhere fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

dist: setup  ## the source archive and the wheel, in dist/
	$(BIN)/python -m build --outdir dist .

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist site *.egg-info
