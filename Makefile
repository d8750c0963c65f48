# Two commands do everything on a fresh machine with Python 3.11+: `make demo` and `make test`.
# The newest Python we test on that is here: since 3.12 forked users own a third less memory (node/many/immortal.py).
# Another one: `make PYTHON=python3 demo`.
NEWEST := $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/3.1[23].*/bin/python3)))
PYTHON ?= $(or $(firstword $(foreach found,python3.13 python3.12 $(NEWEST) python3,$(shell $(found) -c 'import sys, ensurepip; print(sys.executable)' 2>/dev/null))),python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-run
PYTEST := $(BIN)/python -m pytest -q
FAST := not slow and not process and not full and not containers and not hosts
SLOW := (slow or process or containers or hosts) and not full
# Real processes, containers and hosts mostly wait for each other: two tests a core fill the gaps.
TWO_A_CORE := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
PROTO_VENV := .venv-proto
LOCK_VENV := .venv-lock
LOCK := $(LOCK_VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
  --generate-hashes --no-header --no-annotate

# Set to nothing, it means no: else each of the thousand interpreters that tests start compiles our modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: docs demo test test-fast test-full lint format proto bench mutants soak image lock clean help

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# What runs need, and nothing more; the tools of the project come with the first `make test` or `make lint`.
$(RUN_STAMP): pyproject.toml requirements/run.txt requirements/build.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/run.txt --requirement requirements/build.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(RUN_STAMP)

$(STAMP): $(RUN_STAMP) requirements/dev.txt
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	touch $(STAMP)

demo: $(RUN_STAMP) ## four real runs over real processes, a table and reports
	$(BIN)/network-dp demo --out demo-out

lint: $(STAMP) ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .

# Who stays together, who begins first: tests/spread.py.
# Real processes on a busy machine may be late: what fails here runs once more by itself, and both outcomes are shown.
AGAIN := echo "Once more, one after the other; what passes now is a race to look at:"; $(PYTEST) --verbosity=1 --last-failed --last-failed-no-failures none
test: test-fast ## everything but the long versions; fast tests first
	$(PYTEST) --numprocesses $(TWO_A_CORE) --maxprocesses 8 --dist loadscope --no-loadscope-reorder -m "$(SLOW)" || \
	  { $(AGAIN) -m "$(SLOW)"; }

test-fast: $(STAMP) ## only the fast tests
	$(PYTEST) --numprocesses auto --maxprocesses 4 --dist worksteal -m "$(FAST)"

test-full: $(STAMP) ## everything, the long versions too, one after the other
	$(PYTEST)

proto: ## generate node/wire from proto/ with the pinned generator
	test -x $(PROTO_VENV)/bin/python || $(PYTHON) -m venv $(PROTO_VENV)
	$(PROTO_VENV)/bin/python -m pip install --quiet grpcio-tools==1.71.2 setuptools
	$(PROTO_VENV)/bin/python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. --pyi_out=. \
	  $(wildcard proto/node/wire/v1/*.proto)

docs: $(STAMP) ## the pages of docs/ as a site in site/; to read it: python3 -m http.server -d site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(STAMP) ## the benchmark table (under ten minutes)
	$(BIN)/python -m benchmarks

mutants: $(STAMP) ## wrong changes of the protocol, the storage and the checks, one at a time: which go unnoticed?
	$(BIN)/python -m tests.mutants

soak: $(STAMP) ## random fault schedules until stopped
	$(BIN)/network-dp simulate faults --seconds 31536000

image: ## the container image, from a registry or from docker/airgap where none answers
	docker build -f docker/Dockerfile --build-arg BASE="$$(docker/base)" -t network-dp . || \
	  (docker/airgap/prepare && docker build -f docker/Dockerfile --build-arg BASE="$$(docker/base)" -t network-dp .)

lock: ## choose the newest versions again: requirements/*.txt with hashes, and the digest of the base image
	test -x $(LOCK_VENV)/bin/python || $(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip install --quiet uv==0.13.8
	$(LOCK) --extra dev pyproject.toml requirements/build.in --output-file requirements/dev.txt
	$(LOCK) --extra page pyproject.toml --constraint requirements/dev.txt --output-file requirements/run.txt
	$(LOCK) requirements/build.in --constraint requirements/dev.txt --output-file requirements/build.txt
	docker/base --pin

clean:
	rm -rf $(VENV) $(PROTO_VENV) $(LOCK_VENV) demo-out out site .pytest_cache .mypy_cache .ruff_cache .hypothesis
