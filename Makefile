##@ StaticGroup
# Everything runs from one virtual environment; whatever a target needs and does not find, it makes first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KIND := tests/support/devcluster/kind
STAMP := $(VENV)/.installed
PIPELINE := $(VENV)/.pipeline
CLUSTER_NAME ?= sg-e2e
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
N ?= 300
# Where the image and the files of a release will be: nothing is published from here.
IMAGE ?= localhost/staticgroup
BASE_URL ?= https://example.invalid/staticgroup/v$(VERSION)

.PHONY: help
help: ## Say what can be done
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): tests/requirements.lock operator/requirements-msk.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement tests/requirements.lock
	$(BIN)/pip install --quiet --require-hashes --no-deps --requirement operator/requirements-msk.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(PIPELINE): $(STAMP) tests/pipeline.lock
	$(BIN)/pip install --quiet --require-hashes --requirement tests/pipeline.lock
	touch $@

.PHONY: install
install: $(STAMP) ## Make the virtual environment from the lock

##@ Try it
.PHONY: demo
demo: $(STAMP) ## Show a rolling deploy and a scale-down, with and without the operator, on a real cluster
	PYTHONPATH=tests $(BIN)/python -m support.demo $(DEMO)

.PHONY: pipeline-demo
pipeline-demo: $(PIPELINE) ## From a fleet's journal to the session timeout of the next pod, with Spark, Kafka and Kubernetes
	PYTHONPATH=operator:tests $(BIN)/python -m support.fleet_demo $(DEMO)

.PHONY: up
up: $(STAMP) ## Bring up a development cluster with a broker and the operator
	PYTHONPATH=tests $(BIN)/python -m support.scene up $(CLUSTER_NAME)

.PHONY: down
down: $(STAMP) ## Take the development cluster and its broker away, leaving nothing
	PYTHONPATH=tests $(BIN)/python -m support.scene down $(CLUSTER_NAME)

##@ Test
.PHONY: test
test: $(PIPELINE) ## What a change must never break: check, simulate-ci, the learner once on Spark, then real brokers and a real cluster
	PYTHONPATH=tests $(BIN)/python -m support.suites check learner models spark simulate brokers connect e2e

.PHONY: check
check: $(PIPELINE) ## Lint, types, rings, unit tests, generated files (no cluster, no broker, no Spark)
	PYTHONPATH=tests $(BIN)/python -m support.suites check learner

.PHONY: e2e
e2e: $(PIPELINE) ## The end-to-end tests on a real cluster and real brokers
	PYTHONPATH=tests $(BIN)/python -m support.suites e2e

.PHONY: conformance
conformance: $(STAMP) ## The coordinator model against four versions of real brokers; prints the table of agreement
	rm -f build/conformance.json
	PYTHONPATH=operator:tests CONFORMANCE_BROKERS=4.4,4.1,4.0,3.9 CONFORMANCE_HISTORIES=$(N) \
	  $(BIN)/python -m pytest -q -p no:cacheprovider tests/conformance --timeout=900 || status=$$?; \
	  PYTHONPATH=operator:tests $(BIN)/python -m conformance.table && exit $${status:-0}

.PHONY: simulate-ci
simulate-ci: $(STAMP) ## The models' tests, the exhaustive search, schedules with faults, a crash at every third await
	PYTHONPATH=tests $(BIN)/python -m support.suites models simulate

.PHONY: soak
soak: $(STAMP) ## More schedules: make soak N=5000
	$(BIN)/python -m simulator soak --schedules $(N)

.PHONY: connect
connect: $(STAMP) ## The Connect agent: its own tests, and what its jar says of real versions of Connect; LONG_DRILLS=1 rolls workers too
	PYTHONPATH=tests $(BIN)/python -m support.suites connect

.PHONY: pipeline
pipeline: $(PIPELINE) ## The tests of the fleet learner, with Spark
	PYTHONPATH=tests $(BIN)/python -m support.suites learner spark pipeline

.PHONY: faults
faults: $(STAMP) ## Every fault of API server and brokers in every phase, against the real operator; writes docs/reference/faults.md
	PYTHONPATH=operator:tests $(BIN)/python -m support.faults --write

.PHONY: mutants
mutants: $(STAMP) ## Show that every shortcut of the safety argument is caught by a test
	$(BIN)/python tests/mutants/run.py

.PHONY: bench
bench: $(STAMP) ## Benchmarks with a budget: as ratios within one run, then the operator with 1,000 StaticGroups
	PYTHONPATH=operator:tests $(BIN)/python tests/bench/run.py
	$(MAKE) bench-scale

.PHONY: bench-scale
bench-scale: $(STAMP) ## The operator with 1,000 StaticGroups of 10 pods on a real API server: make bench-scale SCALE="--groups 10000"
	PYTHONPATH=operator:tests $(BIN)/python -m bench.scale $(or $(SCALE),--groups 1000)

.PHONY: bench-pipeline
bench-pipeline: $(PIPELINE) ## Spark and DuckDB at the same work: make bench-pipeline BENCH="--events 1000000"
	PYTHONPATH=operator:tests $(BIN)/python tests/bench/pipeline/run.py $(BENCH)
	PYTHONPATH=operator:tests $(BIN)/python tests/bench/pipeline/run.py --whole $(BENCH)

.PHONY: full
full: $(PIPELINE) ## test with every drill in its long form, mutants, the large exhaustive models, older brokers, the ground itself, pods, large benchmarks, pages, release
	LONG_DRILLS=1 PIPELINE_KILLS=10 PYTHONPATH=tests $(BIN)/python -m support.suites check learner models spark pipeline simulate brokers bill connect e2e ground pods
	$(BIN)/python -m simulator.carriers --deep
	$(MAKE) mutants conformance bench-pipeline BENCH=--full
	$(MAKE) bench-scale SCALE="--groups 10000"
	$(MAKE) docs release

##@ Release
build/docs-venv/.installed: docs/requirements.lock
	$(PYTHON) -m venv build/docs-venv
	build/docs-venv/bin/pip install --quiet --require-hashes --requirement docs/requirements.lock
	touch $@

.PHONY: docs
docs: build/docs-venv/.installed ## Build docs/ as a site in build/site; a link that leads nowhere ends it
	build/docs-venv/bin/mkdocs build --strict --quiet --config-file deploy/site/mkdocs.yml

build/release-venv/.installed: deploy/release/requirements.lock
	$(PYTHON) -m venv build/release-venv
	build/release-venv/bin/pip install --quiet --require-hashes --requirement deploy/release/requirements.lock
	touch $@

.PHONY: release
release: build/release-venv/.installed ## Build all that a release holds into build/release, and check it: make release IMAGE=… BASE_URL=…
	PYTHONPATH=deploy:tests build/release-venv/bin/python -m release --image $(IMAGE) --base-url $(BASE_URL) build/release

##@ Generate
.PHONY: crds
crds: $(STAMP) ## Write crds/ and the admission policy from the models
	$(BIN)/python -m staticgroup.api.crd --write crds/

.PHONY: manifests
manifests: crds ## Write deploy/ and the chart's copies
	PATH="$$($(KIND) path helm | xargs dirname):$$PATH" $(BIN)/python deploy/manifest_generator.py --write

.PHONY: lock
lock: $(STAMP) ## Renew the lock files
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --quiet --extra journal --generate-hashes --no-header --no-emit-index-url --upgrade -o operator/requirements.lock
	$(BIN)/uv pip compile operator/requirements-msk.in --quiet --override <(echo 'python-dateutil>=3') --constraint operator/requirements.lock --no-emit-package click --no-emit-package python-dateutil --no-emit-package tzdata --no-emit-package urllib3 --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade -o operator/requirements-msk.lock
	$(BIN)/uv pip compile pyproject.toml --quiet --extra dev --generate-hashes --no-header --no-emit-index-url --upgrade -o tests/requirements.lock
	$(BIN)/uv pip compile pyproject.toml --quiet --extra pipeline-dev --generate-hashes --no-header --no-emit-index-url --upgrade --constraint tests/requirements.lock -o tests/pipeline.lock
	for folder in docs deploy/release; do (cd $$folder && $(CURDIR)/$(BIN)/uv pip compile requirements.in --quiet --generate-hashes --no-header --no-emit-index-url --upgrade -o requirements.lock); done
	cd deploy/fleet-learner && ../../$(BIN)/uv pip compile requirements.in --quiet --generate-hashes --no-header --no-emit-index-url --constraint ../../tests/pipeline.lock -o requirements.lock

.PHONY: fleet-image
fleet-image: $(STAMP) ## Build the fleet learner's image with the development base image
	PYTHONPATH=operator:tests $(BIN)/python -m support.scene.fleet_image

.PHONY: image
image: $(STAMP) ## Build the operator's image with the development base image
	$(KIND) build image --tag localhost/staticgroup:$(VERSION) .
