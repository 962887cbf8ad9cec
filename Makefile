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
	$(PY) -m support.demo $(DEMO)

.PHONY: pipeline-demo
pipeline-demo: $(PIPELINE) ## From a fleet's journal to the session timeout of the next pod, with Spark, Kafka and Kubernetes
	$(PY) -m support.fleet_demo $(DEMO)

.PHONY: up
up: $(STAMP) ## Bring up a development cluster with a broker and the operator
	$(PY) -m support.scene up $(CLUSTER_NAME)

.PHONY: down
down: $(STAMP) ## Take the development cluster and its broker away, leaving nothing
	$(PY) -m support.scene down $(CLUSTER_NAME)

##@ Test
PY := PYTHONPATH=operator:tests $(BIN)/python
# LONG_DRILLS=1: the tests marked `long`, the long forms of the others, and nothing beside what measures time.
SHORT := $(if $(LONG_DRILLS),, and not long)
SHARED := $(if $(LONG_DRILLS),0,2)
pytest = $(PY) -m pytest -q -x -p no:cacheprovider -m "($(1))$(SHORT)"
COMPUTES := not (broker or cluster or e2e or pipeline)

.PHONY: test
test: $(PIPELINE) lint unit ## What a change must never break: lint, unit tests, then real brokers and a real cluster, and what computes beside them
	tests/beside.sh "make cluster" "make simulate-ci chart connect"

.PHONY: check
check: lint unit ## Lint, types, rings, generated files, unit tests (no cluster, no broker)

.PHONY: lint
lint: $(PIPELINE) ## Lint, types, rings, generated files
	$(BIN)/ruff check --quiet .
	$(PY) -m staticgroup.api.crd --check crds/
	$(PY) -m journal --check docs/reference/journal
	$(PY) docs/reference/generate.py --check
	$(PY) $(BIN)/lint-imports
	$(BIN)/mypy

.PHONY: unit
unit: $(PIPELINE) ## Unit tests
	$(call pytest,$(COMPUTES)) -n 2 --dist loadfile --timeout=600 tests/unit tests/support

.PHONY: chart
chart: $(STAMP) ## The chart's and the policy's tests that need Helm and no cluster
	$(call pytest,$(COMPUTES)) -n 2 --dist loadfile --timeout=600 tests/operator

.PHONY: simulate-ci
simulate-ci: $(STAMP) ## The models' tests, the exhaustive search, 100 schedules with faults, a crash at every tenth await
	$(call pytest,$(COMPUTES)) -n 2 --dist loadfile --no-loadscope-reorder --timeout=900 tests/simulation tests/conformance
	$(PY) -m simulator soak --schedules $(if $(LONG_DRILLS),500,100)
	$(PY) -m simulator crash --every $(if $(LONG_DRILLS),1,10)

.PHONY: cluster
cluster: $(PIPELINE) ## The tests on real brokers and on a real cluster, which is taken down afterwards
	$(PY) -m support.scene with-cluster $(CLUSTER_NAME) -- make --no-print-directory on-cluster

ON_STAGE = tests/e2e --ignore-glob=tests/e2e/test_ground*.py --cluster-name=$(CLUSTER_NAME) --keep-cluster --kubeconfig="$$KUBECONFIG" --kind-bin=$(KIND)
.PHONY: on-cluster
on-cluster:
	rm -f build/figures.jsonl
	$(call pytest,broker or cluster) -n $(SHARED) --dist loadfile --timeout=600 tests/operator tests/conformance tests/e2e tests/support
	$(call pytest,e2e and not alone) -n $(SHARED) --dist load --timeout=900 --durations=30 $(ON_STAGE)
	$(call pytest,e2e and alone) --timeout=900 --durations=30 $(ON_STAGE)

.PHONY: ground
ground: $(STAMP) ## The tests of the development cluster itself, of its brokers and of the workload
	$(PY) -m pytest -q -p no:cacheprovider --timeout=600 tests/e2e/test_ground.py tests/e2e/test_ground_kind.py tests/e2e/test_brokers.py tests/support/workload

.PHONY: kind-smoke
kind-smoke: $(STAMP) ## Install, adopt, roll and scale down on a kind cluster; where no container engine answers, on the development cluster
	$(PY) -m pytest -q -p no:cacheprovider --timeout=900 tests/e2e/test_smoke.py --cluster-name=sg-kind --kind-bin=$(KIND) \
	  --kind-kubectl-bin="$$($(KIND) path kubectl)" || status=$$?; \
	  $(PY) -m support.scene down sg-kind && exit $${status:-0}

.PHONY: conformance
conformance: $(STAMP) ## The coordinator model against four versions of real brokers; prints the table of agreement
	rm -f build/conformance.json
	PYTHONPATH=operator:tests CONFORMANCE_BROKERS=4.4,4.1,4.0,3.9 CONFORMANCE_HISTORIES=$(N) \
	  $(BIN)/python -m pytest -q -p no:cacheprovider tests/conformance --timeout=900 || status=$$?; \
	  $(PY) -m conformance.table && exit $${status:-0}

.PHONY: soak
soak: $(STAMP) ## More schedules: make soak N=5000
	$(PY) -m simulator soak --schedules $(N)

.PHONY: connect
connect: $(STAMP) ## The Connect agent: its own tests, and what its jar says of real versions of Connect; LONG_DRILLS=1 rolls workers too
	$(PY) -m support.connect.builds
	$(PY) -m pytest -q -p no:cacheprovider $(if $(LONG_DRILLS),,-m "not long") --timeout=600 tests/connect

.PHONY: pipeline
pipeline: $(PIPELINE) ## The tests of the fleet learner, with Spark
	$(call pytest,pipeline) -n $(SHARED) --dist loadfile --timeout=1800 tests/unit/fleet_learner tests/pipeline

.PHONY: faults
faults: $(STAMP) ## Every fault of API server and brokers in every phase, against the real operator; writes docs/reference/faults.md
	$(PY) -m support.faults --write

.PHONY: mutants
mutants: $(STAMP) ## Show that every shortcut of the safety argument is caught by a test
	$(PY) tests/mutants/run.py

.PHONY: bench
bench: $(STAMP) ## Benchmarks with a budget: as ratios within one run, then the operator with 1,000 StaticGroups
	$(PY) tests/bench/run.py
	$(MAKE) bench-scale

.PHONY: bench-scale
bench-scale: $(STAMP) ## The operator with 1,000 StaticGroups of 10 pods on a real API server: make bench-scale SCALE="--groups 10000"
	$(PY) -m bench.scale $(or $(SCALE),--groups 1000)

.PHONY: bench-slots
bench-slots: $(STAMP) ## Slots of a Deployment of 200 pods pass on, 50 at once: make bench-slots PODS=1000
	$(PY) -m bench.scale.slots --pods $(or $(PODS),200)

.PHONY: bench-pipeline
bench-pipeline: $(PIPELINE) ## Spark and DuckDB at the same work: make bench-pipeline BENCH="--events 1000000"
	$(PY) tests/bench/pipeline/run.py $(BENCH)
	$(PY) tests/bench/pipeline/run.py --whole $(BENCH)

.PHONY: full
full: $(PIPELINE) ## test with every drill in its long form, mutants, the large exhaustive models, older brokers, the ground itself, pods, large benchmarks, pages, release
	LONG_DRILLS=1 PIPELINE_KILLS=10 $(MAKE) check simulate-ci chart connect pipeline cluster ground kind-smoke
	$(PY) -m simulator.carriers --deep
	$(MAKE) mutants conformance bench-pipeline BENCH=--full
	$(MAKE) bench-scale SCALE="--groups 10000"
	$(MAKE) bench-slots
	$(MAKE) docs release
	$(PY) -m pytest -q -p no:cacheprovider tests/site

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
release: build/release-venv/.installed ## Build all that a release holds into build/release, and check it: make release IMAGE=… BASE_URL=… BASE_IMAGE=…@sha256:… KEY=…
	PYTHONPATH=deploy:tests build/release-venv/bin/python -m release --image $(IMAGE) --base-url $(BASE_URL) \
	  $(if $(BASE_IMAGE),--base-image $(BASE_IMAGE)) $(if $(KEY),--key $(KEY)) build/release

##@ Generate
.PHONY: crds
crds: $(STAMP) ## Write crds/ and the admission policy from the models
	$(PY) -m staticgroup.api.crd --write crds/

.PHONY: manifests
manifests: crds ## Write deploy/ and the chart's copies
	PATH="$$($(KIND) path helm | xargs dirname):$$PATH" $(PY) deploy/manifest_generator.py --write

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
	$(PY) -m support.scene.fleet_image

.PHONY: image
image: $(STAMP) ## Build the operator's image with the development base image
	$(KIND) build image --tag localhost/staticgroup:$(VERSION) .
