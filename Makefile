# The commands of the project. `make` alone lists them.

GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.8.0
LICENSES_VERSION := v2.0.1
HELM_VERSION := v3.20.2
ACTIONLINT_VERSION := v1.7.10

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LINT := .cache/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
VULNCHECK := .cache/bin/govulncheck-$(GOVULNCHECK_VERSION)
LICENSES := .cache/bin/go-licenses-$(LICENSES_VERSION)
HELM := .cache/bin/helm-$(HELM_VERSION)
ACTIONLINT := .cache/bin/actionlint-$(ACTIONLINT_VERSION)

# The packages that tests run for, and how long each fuzz target runs.
PKG ?= ./...
FUZZTIME ?= 30s

# The simulator: how many seeds `make sim` runs, with which one it begins, how long `make sim-long` runs, and how
# many worlds of journals `make sim-journal` does.
SEEDS ?= 10000
SEED ?= 1
DURATION ?= 1h
WORLDS ?= 300

# The scenarios that are quick and find the most.
SMOKE := killed-nodes,lost-replies,killed-postgres,journal-lost-answers

.DEFAULT_GOAL := help
.PHONY: help build unit test test-all test-long race race-watched race-unwatched race-cases rest rest-processes rest-worlds rest-sims race-pooler race-plain race-sim long-sim long-chaos sim sim-quick sim-worlds sim-journal sim-more sim-long replay mutants engine-mutants model proof chaos chaos-short chaos-long chaos-mutants vet lint fmt scripts-lint bench bench-curves fuzz zones tidy vuln licences ship image cover ci clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

build: ## Build the binaries, bin/chronos and bin/lab
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/chronos ./cmd/lab

unit: ## Run the tests that need no servers and no network
	scripts/setup compiler
	go test -short -race $(PKG)

# The packages whose tests `make test` runs with the race detector; those that it runs without it, because they take four
# times as long with it and others run the same code with it; and those that test-all runs (LONG). It runs these with
# -short, which means something to them alone; test-long runs what is left out so.
#
#   node               all on one virtual clock: the nodes in the tests of node/service and cmd/chronos run under the race
#                      detector, on real servers
#   node/calendar      pure functions
#   node/store/storetest  the suite on the model, and on a hundred broken ones: the stores' own tests run it under the
#                      race detector
#   node/store/sqlite  the suite on SQLite, which lets one caller write at a time; nodes of cmd/chronos and node/service run
#                      on it under the race detector
#   scripts/tidy       reads the tree, on one thread
PLAIN_NAMES := -e chronos/node -e chronos/node/store/sqlite -e chronos/node/calendar -e chronos/node/store/storetest \
	-e chronos/scripts/tidy
LONG_NAMES := -e ^chronos/sim -e ^chronos/chaos

# Those of the first that take longest begin first, so that none of them is left alone in the end.
LONGEST := chronos/node/store/postgres chronos/cmd/chronos chronos/node/service chronos/node/broker/kafka \
	chronos/node/store/journal chronos/node/store/transfer chronos/cmd/lab chronos/migrations chronos/node/admin \
	chronos/node/api chronos/node/service/doctor chronos/scripts/bench
WATCHED = $(shell go list $(PKG) | grep -v $(LONG_NAMES) | grep -vx $(PLAIN_NAMES))
QUICK = $(strip $(foreach package,$(LONGEST),$(filter $(package),$(WATCHED))) $(filter-out $(LONGEST),$(WATCHED)))
PLAIN = $(shell go list $(PKG) | grep -x $(PLAIN_NAMES))
PARTLY = $(shell go list $(PKG) | grep -x -e chronos/cmd/chronos -e chronos/node/store/transfer)
CASED = $(shell go list $(PKG) | grep -x -e chronos/node/store/postgres)
MANY = $(shell go list $(PKG) | grep -x -e chronos/cmd/chronos -e chronos/node/service -e chronos/scripts/bench)
WORLDLY = $(shell go list $(PKG) | grep -x chronos/node/store/journal)
LONG = $(shell go list $(PKG) | grep $(LONG_NAMES) -e /cmd/lab)

# Tests of cmd/lab that simulate on one thread, as package sim does: ten times as long under the race detector, which finds
# nothing there. They run with LONG, in test-all, and under the race detector with race-sim. What simulates on all cores stays
# in race.
ONE_THREAD := ^(TestModelTable|TestProofTable|TestSimBench|TestSimBroken|TestSimFollowsTheProof|TestSimScenarios|TestSimShrinksByNoClock)$$

# Tests of cmd/chronos that do little but parse command lines and settings, a thousand of them, and those that type what pages
# of docs say: five times as long under the race detector. test-all runs them without it; all other tests of commands run
# theirs under it.
PARSING := ^(TestCommandsOfPages|TestEverySettingInAllPlaces|TestNoSecretIsShown|Test(Client|Compression|Lane|Move|Window)?Sentences|Test(Callbacks|Control|HTTP|Moving|Queues|Windows)Page)$$

# Tests of cmd/chronos whose nodes are processes of the built binary, or whose clients are, which the race detector does not
# watch: it would watch them send and read thousands of messages. Nodes and commands that run in the process of a test are watched.
PROCESSES := ^(TestClientsOf.*|TestEndToEnd.*|TestE2E(BulkCancel|FoundTargets|HTTP|Series|WithoutKafka)|TestJournal(Inputs|Processes)|TestMixedVersions)$$

# Tests of chronos bench, which sends and reads as fast as it can: its package's own tests run under the race detector.
MEASURING := ^TestBench(AsksWhere|Interrupted|OnServers|Other)?$$

# Tests of node/store/transfer that have a move die at every step: seven times as long under the race detector. Moves
# that do not die are watched there, and steps that do not succeed in node/store/journal.
DEATHS := ^TestJournal(Import|Export)Dies$$

# The cases of the contract of the Postgres store, which call it one after the other: what they say when calls come at once,
# the race detector watches, and so it does the store of all nodes that run in tests of node/service and cmd/chronos.
CASES := ^TestStore$$/^(direct|as_through_PgBouncer)$$/^contract$$

# What test-all runs without the race detector, of packages whose other tests race runs with it; and what race itself runs
# so. race-plain runs all of it with the race detector.
REST := $(PROCESSES)|$(MEASURING)|$(DEATHS)|$(PARSING)
UNWATCHED := $(REST)|$(CASES)

# The system tests of Metaswitch's Chronos, with 5,000 timers, on real servers. The interface is tested in node/metaswitch and
# node/service, and nodes without Kafka that are killed in TestE2EWithoutKafka. And a takeover of 100,000 messages, of which
# TestStandbyTakeover has 10,000. And a curve of scripts/bench in small, which loads servers and nodes of its own as fast as
# it can beside all other tests; TestFloorOnServers runs the same servers and tables. race-plain runs them.
MASSES := ^(TestE2EMetaswitch|TestStandbyTakeoverOfMany|TestCurveOnServers)$$

# The worlds of journals, which take half of the time of the tests of node/store/journal under the race detector: test-all
# has it watch two of the six. Sim-quick simulates twelve without it, the six among them; race-plain runs all six with it.
ENGINES := ^TestEngines$$

# The Postgres store is tested once as a node connects to it and once as through a pooler. The second time the contract
# is enough for people who wait, and that of messages alone: what else there is goes through the same statements.
POOLER := ^TestStore$$/^as_through_PgBouncer$$/^(session|concurrent|random)$$|^TestQueues$$/^as_through_PgBouncer$$

# The worlds that test-long simulates: others than those of sim-quick.
MORE_SEED := 1001
MORE_SEEDS := 1000

test: ## Check and test, on a real Kafka and a real Postgres; sets up what it needs (7 minutes, 16 the first time)
	@scripts/steps vet lint race sim-quick

test-all: ## What `make test` leaves to CI: nodes that are processes, simulator, laboratory, chaos, journals in worlds (4 minutes)
	@scripts/steps rest

test-long: ## What both leave out: stores through a pooler, more race detector, all seeds of tests, 1000 more worlds
	@scripts/steps race-pooler race-plain long-sim sim-more long-chaos

# Two packages at once with the race detector, and beside them without it what needs no servers, one package after the other,
# and the contract of the Postgres store: many tests wait, for deadlines and for servers. More at once takes longer: nodes
# use the processors while their tests wait for a turn.
#
# The simulator runs on one thread, so that the race detector finds nothing there that the engine's own tests do not: it is
# left to race-sim, which takes several times as long.
#
# SQLite, which is C translated to Go, is compiled without the race detector: it finds nothing there that its authors
# could not find, and takes three fifths of the time of the store's tests. What calls SQLite is watched as all else is.
#
# Nor are regular expressions and the parser of command lines, which nobody shares: each command that a test of
# cmd/chronos runs builds the parser anew, with some thousand expressions, and that took a quarter of their time.
RACE := -race -gcflags=modernc.org/...=-race=false -gcflags=regexp/...=-race=false \
	-gcflags=github.com/alecthomas/kong=-race=false

# Compilers, and tests whose clock is a virtual one, leave the processors to tests that wait in real time.
STEP_BACK := nice -n 10
RACE += -toolexec '$(STEP_BACK)'

race: ## Run the tests, those that it says something about with the race detector, on a real Kafka and a real Postgres
	scripts/setup compiler browser solvers
	$(if $(QUICK),scripts/with-servers )$(MAKE) --no-print-directory -j3 race-watched race-unwatched race-cases

race-watched:
	$(if $(QUICK),go test $(RACE) -p 2 -shuffle=on -skip '$(ONE_THREAD)|$(UNWATCHED)|$(MASSES)|$(POOLER)|$(ENGINES)' -timeout 15m $(QUICK))

race-unwatched:
	$(if $(PLAIN),env -u CHRONOS_TEST_KAFKA -u CHRONOS_TEST_POSTGRES $(STEP_BACK) go test -p 1 -shuffle=on -short -timeout 15m $(PLAIN))

race-cases:
	$(if $(CASED),go test -toolexec '$(STEP_BACK)' -shuffle=on -run '$(CASES)' -timeout 15m $(CASED))

# What race has no time for, in three rows: commands whose nodes are processes, which need servers; the tests of simulator,
# laboratory and chaos suite; and the worlds of journals.
rest: ## Run the tests that race leaves to test-all
	scripts/setup compiler solvers clients
	$(if $(PARTLY),scripts/with-servers )$(MAKE) --no-print-directory -j3 rest-processes rest-sims rest-worlds

rest-processes:
	$(if $(PARTLY),go test -toolexec '$(STEP_BACK)' -p 1 -shuffle=on -run '$(REST)' -timeout 15m $(PARTLY))

rest-sims:
	$(if $(LONG),env -u CHRONOS_TEST_KAFKA -u CHRONOS_TEST_POSTGRES $(STEP_BACK) go test -p 1 -shuffle=on -short -timeout 15m $(LONG))

rest-worlds:
	$(if $(WORLDLY),CHRONOS_WORLDS=2 $(STEP_BACK) go test $(RACE) -shuffle=on -run '$(ENGINES)' -timeout 15m $(WORLDLY))

race-pooler: ## Run the tests of the Postgres store through a pooler that race leaves out
	scripts/setup compiler
	scripts/with-servers go test $(RACE) -shuffle=on -run '$(POOLER)' -timeout 20m ./node/store/postgres

race-plain: ## Run with the race detector what race runs without; and 5,000 timers and a large takeover on real servers
	scripts/setup compiler clients
	$(if $(PLAIN),go test $(RACE) -shuffle=on -timeout 20m $(PLAIN))
	$(if $(WORLDLY),go test $(RACE) -run '$(ENGINES)' -timeout 20m $(WORLDLY))
	$(if $(PARTLY)$(CASED)$(MANY),scripts/with-servers go test $(RACE) -run '$(UNWATCHED)|$(MASSES)' -timeout 30m $(sort $(PARTLY) $(CASED) $(MANY)))

long-sim: ## Run the simulator's tests with all seeds, also on SQLite and Postgres
	scripts/setup solvers
	scripts/with-servers go test -shuffle=on -timeout 20m ./sim/... ./cmd/lab

long-chaos: ## Run the tests of the chaos suite that start servers of their own, which race leaves out
	scripts/setup compiler
	scripts/with-servers go test -p 1 -shuffle=on -timeout 20m ./chaos/...

race-sim: ## The same with the race detector (15 minutes): what a night is for, like sim
	scripts/setup compiler solvers
	scripts/with-servers go test $(RACE) -shuffle=on -timeout 60m ./sim/... ./cmd/lab

sim-quick: build ## Simulate all scenarios and 500 worlds, each twice, and beside them 12 of journals (20 seconds)
	$(MAKE) --no-print-directory --output-sync -j2 sim-worlds sim-journal WORLDS=12

sim-worlds:
	bin/lab sim --scenario all --twice
	bin/lab sim --seed $(SEED) --seeds 500 --twice

sim: build ## Simulate all scenarios and SEEDS (10000) worlds from SEED on, each twice (7 minutes)
	bin/lab sim --scenario all --twice
	bin/lab sim --seed $(SEED) --seeds $(SEEDS) --twice
	bin/lab sim --seed $(SEED) --seeds 300 --proof
	$(MAKE) --no-print-directory sim-journal

sim-journal: ## Simulate WORLDS (300) worlds of nodes on a journal from SEED on (4 minutes)
	CHRONOS_SEED=$(SEED) CHRONOS_WORLDS=$(WORLDS) go test ./node/store/journal -run 'TestEngines$$' -count=1 -timeout 60m

sim-more: build ## Simulate 1000 worlds that sim-quick does not, each twice
	bin/lab sim --seed $(MORE_SEED) --seeds $(MORE_SEEDS) --twice

sim-long: build ## Simulate worlds from SEED on for DURATION (1h)
	bin/lab sim --seed $(SEED) --duration $(DURATION)

replay: build ## Simulate one world again: SEED=7, or the plan that a failure has left: PLAN=chronos-sim-7.txt
	bin/lab sim $(if $(PLAN),--plan '$(PLAN)',--seed $(SEED)) $(if $(BREAK),--break $(BREAK))

mutants: build ## Hunt every mutant in five series of seeds, and print how soon each is caught (5 minutes)
	bin/lab sim --break all

# With -log FILE it goes on where it stopped: scripts/with-servers go run ./scripts/enginemutants -log FILE.
engine-mutants: ## Edit engine, stores and commands in 900 small ways, and see that tests and worlds notice (hours)
	scripts/with-servers go run ./scripts/enginemutants

model: build ## Search all interleavings of a small cluster for broken promises
	bin/lab model

proof: build ## Have z3 and cvc5 check the proof of the algorithm, for any number of nodes and messages (10 seconds)
	scripts/setup solvers
	bin/lab proof

chaos: build ## Run all scenarios on real servers, with faults drawn from SEED (20 minutes)
	bin/lab chaos --seed $(SEED) --report .cache/chaos.html

chaos-short: build ## Run four scenarios on real servers: lost replies and answers, killed nodes, a killed Postgres (3 minutes)
	bin/lab chaos --seed $(SEED) --scenario $(SMOKE)

chaos-long: build ## The same from SEED on, one seed after the other, for DURATION (1h)
	bin/lab chaos --seed $(SEED) --duration $(DURATION) --report .cache/chaos.html

chaos-mutants: build ## Run broken nodes on real servers, and see that the suite notices
	bin/lab chaos --seed $(SEED) --mutants

vet: ## Run go vet
	go vet ./...

lint: $(LINT) ## Run golangci-lint
	$(LINT) run --allow-serial-runners ./...

fmt: $(LINT) ## Format the code
	$(LINT) fmt

scripts-lint: ## Check the scripts with shellcheck, where it is installed
	shellcheck -x -a .ci/run scripts/ship/check scripts/fuzz scripts/kafka/archive scripts/setup scripts/steps scripts/with-servers

bench: ## Measure speed and lateness on a Kafka and a Postgres that it starts, and write the tables of BENCHMARKS.md (18 minutes)
	scripts/setup compiler kafka postgres
	go run ./scripts/bench --write BENCHMARKS.md

bench-curves: ## Measure how that depends on backlog, size, nodes, routes and more, and write the tables (an hour and a half)
	scripts/setup compiler kafka postgres
	go run ./scripts/bench --curve all --write BENCHMARKS.md

zones: ## Compare series and windows with a brute-force watch at every change of clocks from 1973 to 2050, in all zones (minutes)
	CHRONOS_ALL_ZONES=1 go test -timeout 60m -run AllZones -v ./node/calendar

fuzz: ## Run each fuzz target for FUZZTIME (30s)
	scripts/fuzz $(FUZZTIME) $(PKG)

tidy: ## See whether go.mod and go.sum are tidy
	go mod tidy -diff

vuln: $(VULNCHECK) ## Look for known vulnerabilities in what the code calls
	$(VULNCHECK) ./...

licences: $(LICENSES) ## See whether the licences of all that is linked allow it
	$(LICENSES) check ./cmd/chronos --ignore chronos --allowed_licenses Apache-2.0,MIT,BSD-2-Clause,BSD-3-Clause,ISC,MPL-2.0

image: ## Build the container image, where Docker answers
	docker build --build-arg VERSION=$(VERSION) -f scripts/ship/Dockerfile -t chronos:$(VERSION) .

ship: $(HELM) $(ACTIONLINT) ## Check the chart, the unit, the workflows, the compose file and the image
	scripts/ship/check '$(CURDIR)/$(HELM)' '$(CURDIR)/$(ACTIONLINT)'

cover: ## Run all tests and show how much of the code they reach
	scripts/with-servers go test -coverpkg=./... -coverprofile=cover.out $(PKG)
	go tool cover -func=cover.out | tail -n 1

ci: ## Run what continuous integration runs: test, test-all, model and chaos-short (15 to 20 minutes)
	.ci/run

clean: ## Remove what was built and downloaded here
	rm -rf bin .cache cover.out

$(LINT):
	GOBIN='$(CURDIR)/.cache/bin' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .cache/bin/golangci-lint $@

$(VULNCHECK):
	GOBIN='$(CURDIR)/.cache/bin' go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	mv .cache/bin/govulncheck $@

$(LICENSES):
	GOBIN='$(CURDIR)/.cache/bin' go install github.com/google/go-licenses/v2@$(LICENSES_VERSION)
	mv .cache/bin/go-licenses $@

$(HELM):
	GOBIN='$(CURDIR)/.cache/bin' go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	mv .cache/bin/helm $@

$(ACTIONLINT):
	GOBIN='$(CURDIR)/.cache/bin' go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	mv .cache/bin/actionlint $@
