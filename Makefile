# SPDX-License-Identifier: Apache-2.0
# What a user types. The work is in scripts/; `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# The first Python that is new enough; say `make demo PYTHON=python3.12` for another.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done; echo python3)
# A container's setting; with it each of the many processes here would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: venv  ## install what is missing (about 300 MB) and let the robot find what it is told
	@.venv/bin/brain demo

.PHONY: venv
venv:  ## make .venv with the brain in it, without running anything
	@$(PYTHON) scripts/make_venv.py

# The ROS 2 distribution whose wheels the tests use: kilted or jazzy.
ROS ?= kilted

# Most of the fast tests wait for processes half of their time, so two share a core.
WORKERS ?= $(shell echo $$((2 * $$(env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2))))

.PHONY: docs
docs:  ## the documentation as a site with search and a Python API, into site/ (strict: a link that leads nowhere fails)
	@test -x .venv-docs/bin/mkdocs || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --requirement requirements-docs.txt
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "brain: site/index.html"

# What a change is measured against.
BASE ?= $(shell git rev-parse -q --verify origin/main >/dev/null && echo origin/main || echo main)

.PHONY: check
check: lint types  ## lint, types and the fast tests that a change can affect: a minute, for the lowest layers two
	@tests=$$(.venv/bin/python scripts/affected_tests.py $(BASE)) && \
	OMP_NUM_THREADS=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST \
	.venv/bin/python -m pytest -p timeout -p xdist -n $(WORKERS) --dist worksteal -m "not slow and not alone" -q $$tests

.PHONY: tools
tools:
	@$(PYTHON) scripts/make_venv.py --tests

.PHONY: lint
lint: tools  ## style and common mistakes (ruff.toml)
	@.venv/bin/ruff check .

.PHONY: types
types: tools  ## the types of what others call (mypy.ini)
	@.venv/bin/mypy

.PHONY: test
test:  ## every test, each once: under colcon on ROS 2 (ROS=jazzy: not on Kilted), and from the sources
	@set -m; $(PYTHON) scripts/make_venv.py --tests </dev/null & venv=$$!; set +m; \
	trap 'kill -- -$$venv 2>/dev/null' EXIT; \
	$(PYTHON) scripts/ros_wheels.py $(ROS); status=$$?; built=--ros; \
	test $$status != 0 || ! scripts/run_tests.sh --build $(ROS) || built=--built; \
	wait $$venv || exit 1; \
	case $$status in \
	  0) scripts/run_tests.sh $$built $(ROS);; \
	  3) scripts/run_tests.sh --no-ros;; \
	  *) exit $$status;; \
	esac

# Minutes of a piece of `make nightly`; without, all at once.
MINUTES ?=

.PHONY: nightly
nightly: tools  ## what shows more of what `make test` shows: every network, every kill; MINUTES=30: a piece, again: the next
	@.venv/bin/python scripts/ros_wheels.py $(ROS) || test $$? = 3
	@BRAIN_TEST_EXTENDED=1 BRAIN_TEST_PIECE=$(MINUTES) scripts/run_tests.sh --no-ros -m extended

.PHONY: mutate
mutate: tools  ## change the code on purpose and tell which changes no test notices: up to two hours, before a release
	@.venv/bin/python scripts/mutate.py

.PHONY: clean
clean:  ## remove what the targets made: environments, build trees, caches; not runs/
	rm -rf .venv .venv-docs site .venv-ros .venv-ros-jazzy .ros .ros-jazzy .pytest_cache .mypy_cache .ruff_cache src/*/build src/*/*.egg-info
	find src scripts experiments -name __pycache__ -type d -prune -exec rm -rf {} +
