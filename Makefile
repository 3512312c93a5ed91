# Two commands a new user needs: `make demo` and `make test`. Everything else is listed by `make help`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROCGEN_PACKAGES := libqt5gui5
CHROMIUM_PACKAGES := chromium

.PHONY: help demo test check setup debian bench learn invariance splits advice tuning mutations calibrate lint docs \
  dist clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: setup  ## how should 1,024 Pendulum samples be split into N × T? (a few minutes)
	$(BIN)/python -m benchmarks.demo

test: setup debian check  ## set up, check and run the tests
	$(BIN)/python -m pytest

check: setup  ## formatting, lint and types
	$(BIN)/ruff format --check --quiet src tests benchmarks
	$(BIN)/ruff check --quiet src tests benchmarks
	$(BIN)/mypy

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null 2>&1 && py=$(PYTHON) || py=python3; \
	  test -x $(BIN)/python || "$$py" -m venv $(VENV)
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

learn: setup  ## run every learning result and write docs/results/learning.json and its page
	$(BIN)/python -m benchmarks.learn

invariance: setup  ## the paper's studies at default size, sharing their runs (hours)
	for name in staleness invariance table5 linear betas ewma proximal-age adam published; do \
		$(BIN)/trimtab study run paper/$$name --store runs/store --run-dir runs/paper-$$name || exit 1; done

splits: setup  ## split studies on four problems
	$(BIN)/python -m benchmarks.splits

advice: setup  ## follow the doctor's advice on six cases and see whether it helps
	$(BIN)/python -m benchmarks.advice

tuning: setup  ## tune CartPole by the playbook, about four minutes on two cores
	$(BIN)/python -m benchmarks.tuning

mutations: setup  ## break estimators on purpose and see which test goes red
	$(BIN)/python -m benchmarks.mutations

calibrate: setup  ## check every interval against exact answers and write docs/results/calibration.md
	$(BIN)/python -m benchmarks.calibrate

lint: setup  ## format and lint
	$(BIN)/ruff format src tests benchmarks && $(BIN)/ruff check --fix src tests benchmarks

dist: setup  ## the source archive and the wheel, in dist/
	$(BIN)/python -m build --outdir dist .

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist site *.egg-info
