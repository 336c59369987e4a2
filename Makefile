# `make demo` needs Go alone; `make test` also a JDK and Maven, to test against Java. Both do all their own set-up.
SHELL := /bin/bash
GO ?= go
SEED ?= 1
N ?= 100000
FUZZTIME ?= 10s
SOAK ?= 10m

.PHONY: build demo test interop race lint fuzz-short sim mutants soak gen bench clean

build: ; $(GO) build -o bin/loglode ./cmd/loglode

# The main job on real input: real processes, kills, replay, checksums.
demo: build ; $(GO) run ./cmd/internal/demo -binary bin/loglode $(if $(DEMO_INPUT),-input "$(DEMO_INPUT)")

test: build ; $(GO) test -timeout 20m ./... && $(GO) run ./cmd/internal/mutants -short -n 30000 && $(MAKE) interop

# Apache's client, bookies and ZooKeeper against ours; writes docs/interop.md.
interop: ; $(GO) test -count=1 -tags interop -timeout 20m ./cmd/internal/interop/...

race: ; $(GO) test -race -timeout 40m ./...

lint: ; test -z "$$(gofmt -l $$(git ls-files '*.go'))" && $(GO) vet ./... && $(GO) vet -tags interop ./cmd/internal/interop/... && $(GO) vet -tags mutants ./ledger/internal/... && $(GO) test ./cmd/internal/tidy

# Each fuzz target for FUZZTIME.
fuzz-short: ; $(GO) run ./cmd/internal/fuzzall -time $(FUZZTIME)

# N seeded schedules of the protocol core from SEED on: make sim SEED=1 N=1000000
sim: export LOGLODE_SIM_SEED=$(SEED)
sim: export LOGLODE_SIM_N=$(N)
sim:
	$(GO) test -count=1 -timeout 0 -run 'TestSim$$' -v ./ledger/internal/ledgersim
	$(GO) test -count=1 -timeout 0 -run 'TestR01_RandomOrders$$' -v ./ledger/internal/ledgersim

# Seeded protocol bugs (build tag mutants): which seed and which test catches each. The table goes into docs/simulation.md.
mutants: ; $(GO) run ./cmd/internal/mutants -doc docs/simulation.md

# Random kills, pauses and full disks of real processes for SOAK. Needs root for its small disks.
soak: ; LOGLODE_SIM_SOAK=$(SOAK) $(GO) test -count=1 -tags soak -timeout 0 -v ./cmd/internal/sim

# Generated code is committed; this makes it anew. Needs protoc and thrift 0.17.
gen: ; $(GO) generate ./...

bench: build ; $(GO) run ./cmd/internal/benchrun -binary bin/loglode

clean: ; rm -rf bin out loglode-data
