# drover: what can be done here. `make` alone lists it.

TOOLS := go tool -modfile=hack/tools/go.mod
GO_TEST_FLAGS ?=
# Without gRPC's own trace pages, which nobody serves, the linker leaves out what nothing calls: a fifth of the binary.
BUILD_FLAGS := -tags grpcnotrace
# The version that drover shows (drover version).
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
STAMP = -X github.com/drover-project/drover/version.version=$(VERSION) -X github.com/drover-project/drover/version.commit=$(COMMIT)
# Packages whose goroutines share something.
RACE := ./machines/... ./nodegroup/... ./autoscale/... ./test/openstack/...

.DEFAULT_GOAL := help
.PHONY: help build demo size trials test test-rest test-cluster test-race test-failures test-extra test-gitops test-ends test-openstack test-boot test-boot-openstack bench bench-scale bench-openstack lint generate check-generated check-tidy release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build drover and the sandbox into bin/
	GOGC=400 go build $(BUILD_FLAGS) -ldflags "$(STAMP)" -o bin/ ./cmd/...

demo: build ## a cloud, a cluster and an autoscaler on this machine, and the main job done with them
	bin/sandbox demo

trials: build ## trouble while an autoscaler works: the stand-in, or the real one that CLUSTER_AUTOSCALER names
	bin/sandbox trials

# test and test-cluster together run all tests of these packages. A test makes much garbage and retains little memory.
# Packages wait for their control planes half of the time, so two run for each processor.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
PACKAGES = $(shell expr 2 '*' $(PROCESSORS))
TEST = GOGC=400 go test -timeout 30m -p $(PACKAGES) $(GO_TEST_FLAGS)
# The tests of these packages run a sample of their work without the build tag cluster, and all of it with the tag.
SAMPLED := ./machines/set ./nodegroup ./test/autoscaler ./test/chaos ./test/ninetydays
# Packages with tests that have the build tag cluster.
CLUSTER := ./cmd/drover ./deploy ./machines/deployment ./machines/machine ./test/ends ./test/install ./test/kube ./test/kube/memory

test: ## unit tests, integration tests on a real control plane (built once, from Go modules), and a sample of the long ones
	go run ./test/kube/prepare
	$(TOOLS) helm version
	$(TEST) ./...

# Packages with tests that neither test-cluster nor test-race runs.
REST = $(filter-out $(shell go list ./test/e2e ./test/limits $(CLUSTER) $(SAMPLED) $(RACE)),$(shell go list ./...))

test-rest: ## what neither test-cluster nor test-race runs, so that CI runs each test once
	go run ./test/kube/prepare
	$(TEST) $(REST)

# These tests use the processors all the time. With more packages at once, the API server's own deadlines are exceeded. The tests of whole
# clusters and of limits run alone: drover decodes 720 MB in the latter, and must be ready within a minute. A test of a whole cluster waits
# three quarters of its time, so two run for each processor.
test-cluster: PACKAGES = $(PROCESSORS)
test-cluster: ## the tests that take minutes: whole clusters with drover from install to removal, and all of what test samples
	go run ./test/kube/prepare
	$(TOOLS) helm version
	$(TEST) -tags cluster -parallel $(shell expr 2 '*' $(PROCESSORS)) ./test/e2e
	$(TEST) -tags cluster ./test/limits
	$(TEST) -tags cluster $(CLUSTER) $(SAMPLED)

test-race: ## the packages with goroutines, under the race detector
	go run ./test/kube/prepare
	GOGC=400 go test -race -timeout 30m $(GO_TEST_FLAGS) $(RACE)

# test-failures tries every nth of the disturbed watches; 1: all, some 13 700 runs.
WATCH_STRIDE ?= 7

test-failures: ## every call of the crash test's scenarios fails once in each way, some for good: some 19 700 runs; watches are late, cut or out of order: some 1950
	go test ./test/chaos -count=1 -timeout 120m -run 'ACallThatFails|ADisturbedWatch' -failure-stride=1 -watch-stride=$(WATCH_STRIDE)

test-ends: ## 10 000 Machines of 200 deployments and 50 projects come and go, twice: nothing of them stays in drover
	go test $(GO_TEST_FLAGS) -tags cluster -count=1 -timeout 60m -v ./test/ends -machines=10000

test-openstack: ## the contract with OpenStack and drover's driver, against a real cloud (OS_CLIENT_CONFIG_FILE, OS_CLOUD)
	go test $(GO_TEST_FLAGS) -tags openstack -count=1 -timeout 60m -v -run '^TestARealCloudBehavesLikeTheSimulatedCloud$$' ./test/openstack/contract

test-gitops: ## node groups brought by Flux's own library and by Helm while the autoscaler resizes them; a module of its own
	go run ./test/kube/prepare
	cd test/gitops && go test $(GO_TEST_FLAGS) -count=1 ./...

test-boot: ## real servers: virtual machines boot drover's user data and become nodes (QEMU, root; CELL names one of them)
	go test $(GO_TEST_FLAGS) -tags boot -count=1 -timeout 180m -v -run '^TestVirtualMachinesBootAndBecomeNodes$$/$(CELL)' ./test/boot

test-boot-openstack: ## one of these machines behind a real OpenStack (OS_CLIENT_CONFIG_FILE, OS_CLOUD), such as that of test/openstack/real
	go test $(GO_TEST_FLAGS) -tags boot,openstack -count=1 -timeout 90m -v -run '^TestANodeJoinsAndIsDeletedWithARealOpenStack$$' ./test/boot

test-extra: ## generated user data against cloud-init, shellcheck, systemd, containerd and the kubelet's validation; says what is missing
	go test -tags extra -count=1 ./test/extra ./machines/bootstrap

bench: ## the benchmarks, but for the two that take long
	go test -run '^$$' -bench . -skip '^BenchmarkScale' -benchmem ./...

bench-scale: ## Machines made, deleted and rolled at a cloud as slow as a real one, beside a bare client (BENCH names stages)
	go test -run '^$$' -bench '^BenchmarkScale$$$(BENCH)' -v -timeout 4h ./test/bench

bench-openstack: ## the same at a real cloud (OS_CLIENT_CONFIG_FILE, OS_CLOUD)
	go test -run '^$$' -tags openstack -bench '^BenchmarkScaleOnOpenStack$$$(BENCH)' -v -timeout 4h ./test/bench

size: ## lines of code of each package beside its budget (hack/rooms/budgets.tsv), its forwarders and its users
	go run ./hack/rooms

lint: size ## golangci-lint, buf lint, the budgets of code, and the words of comments, tests and pages
	go run ./hack/words
	$(TOOLS) golangci-lint run ./...
	$(TOOLS) buf lint
	$(TOOLS) buf breaking --against proto/wire.binpb

generate: ## everything that is generated: deep copies, CRDs, protobuf, templates of the charts, the manifests of two clusters, the pages of flags, metrics, attacks and conformance
	$(TOOLS) controller-gen object paths=./machines/api/...
	$(TOOLS) controller-gen crd paths=./machines/api/... output:crd:dir=deploy/crds
	go run ./hack/crdgen deploy/crds docs/api.md
	$(TOOLS) buf generate
	go run ./hack/chartgen deploy
	go run ./hack/metrics
	go test ./cmd/drover -count=1 -run '^TestTheFlagsPage$$' -args -write
	go test ./deploy -count=1 -run '^TestTheManifestsOfTwoClusters$$' -args -write
	go test -tags cluster ./test/e2e -count=1 -run '^TestTheListOfAttempts$$' -args -write
	go run ./hack/conformance

check-generated: generate ## fail when something generated is not what is committed
	@git diff --exit-code -- . || { echo "run 'make generate' and commit what it changes"; exit 1; }

check-tidy: ## fail when a go.mod is not tidy
	go mod tidy -diff
	cd hack/tools && go mod tidy -diff
	cd test/kube/controlplane && go mod tidy -diff
	cd test/extra/kubeletconfig && go mod tidy -diff
	cd test/gitops && go mod tidy -diff

release: ## check that VERSION can be released from this commit, and print what to run then
	go run ./hack/release $(VERSION)

clean: ## remove what was built here
	rm -rf bin
