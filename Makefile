# Datacast. `make demo` and `make test` do all their set-up themselves (as root, on Debian 12).
# Bare `make` shows the targets and needs nothing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BUILD := build
VENV := .venv
PY := $(VENV)/bin/python
CC := gcc
CFLAGS_BASE := -std=gnu11 -O2 -g -fno-strict-aliasing -fno-omit-frame-pointer -Ilibdatacast/include \
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Werror
SANITIZE := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all
# A test's own file, after the flags of what it links, which is as it is shipped or sanitized: what is quickest to compile and link.
TEST_CFLAGS := -O0 -g1 -fuse-ld=gold

# Debian packages the build, the lab and the tests need.
DEBIAN_PACKAGES := build-essential pkg-config python3 python3-venv python3-dev python3-pip \
  dpdk libdpdk-dev libssl-dev openssl libcurl4-openssl-dev nginx-light docker-registry containerd libjansson-dev libyaml-dev libns3-dev librust-blake3-dev \
  mininet net-tools iputils-ping openvswitch-switch iproute2 ethtool iptables tcpdump tshark etcd-server

# Python packages are those of one day: what is released tomorrow comes in when packaging/lock was run and the tests passed.
export PIP_CONSTRAINT := $(CURDIR)/packaging/constraints.txt

# Test processes, and the services that they start by the hundred, read compiled Python where it is at hand.
unexport PYTHONDONTWRITEBYTECODE

# What `make demo` and `make lab` pass on.
TOPOLOGY ?= bcube:4,1
LINK ?= 100mbit
MTU ?= 9000
SIZE ?= 256M
FROM ?= $(if $(filter bcube:4$(comma)1,$(TOPOLOGY)),00)
TO ?= $(if $(filter bcube:4$(comma)1,$(TOPOLOGY)),02$(comma)10$(comma)21$(comma)23$(comma)31$(comma)33,all)
DATAPLANE ?= dpdk
JSON ?= report.json
TREES ?=
CACHE ?=
CREDITS ?=
DELTA ?=
FILE ?=
SEED ?=
comma := ,
LAB_OPTIONS = --topology $(TOPOLOGY) --link $(LINK) --mtu $(MTU) --dataplane $(DATAPLANE)
RUN_OPTIONS = $(if $(FILE),--file $(FILE),--size $(SIZE)) $(if $(FROM),--from $(FROM)) --to $(TO) --json $(JSON) \
  $(if $(TREES),--trees $(TREES)) $(if $(CACHE),--cache $(CACHE)) $(if $(CREDITS),--credits $(CREDITS)) \
  $(if $(DELTA),--delta $(DELTA)) $(if $(SEED),--seed $(SEED))

.PHONY: analyze analyzed audit coverage coverage-services format docs docs-links packages test-packages test-image help setup build binaries demo lab test test-c c-tests c-test-programs test-py test-quick test-faults lint constants clean bench-lab figures bench-failures bench-path bench-peers draws mutants power-loss kills sites clockwork clockwork-bugs test-costs test-long

ifndef V
.SILENT:
endif

help: ## show the targets
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(BUILD)/.packages $(BUILD)/.venv ## install Debian's packages and the Python environment

# No service is started on the way: the lab runs its own Open vSwitch (exit 101 means "not now" to Debian's scripts).
$(BUILD)/.packages: Makefile
	@mkdir -p $(BUILD)
	@missing=$$(for p in $(DEBIAN_PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  [ "$$(id -u)" = 0 ] || { echo "datacast: missing packages: $$missing; run as root: apt-get install $$missing" >&2; exit 1; }; \
	  echo "installing: $$missing"; \
	  if [ ! -e /usr/sbin/policy-rc.d ]; then \
	    trap 'rm -f /usr/sbin/policy-rc.d' EXIT; \
	    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; \
	  fi; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; } \
	    >$(BUILD)/apt.log 2>&1 || { tail -20 $(BUILD)/apt.log >&2; exit 1; }; \
	fi
	@touch $@

# System site packages: Mininet is Debian's. Always Debian's python3, whatever comes first in PATH.
$(BUILD)/.venv: pyproject.toml setup.py packaging/constraints.txt | $(BUILD)/.packages
	@mkdir -p $(BUILD)
	@echo "Python environment in $(VENV)"
	@$(PY) -c '' 2>/dev/null || { rm -rf $(VENV); /usr/bin/python3 -m venv --system-site-packages $(VENV); }
	@$(PY) -m pip install -q --disable-pip-version-check 'setuptools>=68' wheel 'cffi>=1.16'
	@$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[plots,test]'
	@touch $@

# The core's Python binding, compiled in place.
BINDING_SRC := $(wildcard libdatacast/python/build_core.py libdatacast/python/cdef/*.h libdatacast/src/*.[ch] \
  libdatacast/include/datacast/*.h)
$(BUILD)/.binding: $(BINDING_SRC) | $(BUILD)/.venv
	@echo "Python binding of the core"
	@$(PY) setup.py -q build_ext --inplace --build-temp $(BUILD)/binding >$(BUILD)/binding.log 2>&1 \
	  || { tail -30 $(BUILD)/binding.log >&2; exit 1; }
	@touch $@

# Each C part has its own fragment; they add files to BINARIES, targets to C_TESTS, and what these run to C_TEST_PROGRAMS.
BINARIES :=
C_TESTS :=
C_TEST_PROGRAMS :=
-include libdatacast/build.mk
-include datapath/build.mk
-include dpdk_cache/build.mk
-include host_agent/build.mk
-include lab/build.mk
-include simulation/build.mk
-include simulation/ns3/build.mk
-include p4src/build.mk
-include console/build.mk
-include libdatacast/fuzz/build.mk
-include tests/conformance/build.mk
-include tests/powerloss/build.mk

# Once more from the top after the set-up: pkg-config's answers depend on what it installed.
AGAIN = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

build: setup ## build everything; leaves the command at .venv/bin/datacast (V=1 shows the commands)
	@$(AGAIN) binaries

binaries: $(BINARIES) $(BUILD)/.binding

test-c: setup ## the C tests, plain and under ASan and UBSan
	+@$(AGAIN) c-tests

c-tests: $(C_TESTS)
c-test-programs: $(C_TEST_PROGRAMS)

demo: build ## a file to a group: TOPOLOGY FROM TO SIZE|FILE LINK MTU TREES CACHE CREDITS DELTA DATAPLANE SEED JSON
	@$(VENV)/bin/datacast lab run $(LAB_OPTIONS) $(RUN_OPTIONS)

lab: build ## leave a lab up until Ctrl-C, REST on loopback: TOPOLOGY LINK MTU DATAPLANE
	@$(VENV)/bin/datacast lab up $(LAB_OPTIONS)

# What takes time by the clock wants the machine for itself: one at a time on a checkout (bench/lab/alone.py has the same lock).
ALONE = flock $(BUILD)/figures.lock

bench-lab: build ## the lab's figures of docs/results/lab.md once more: ONLY=demo,empty
	@$(ALONE) $(PY) bench/lab/figures.py $(if $(ONLY),--only "$(ONLY)")

figures: build ## the tables of a results page once more, by this revision: PAGE=transport (or ns3) ONLY=table1,figure12 BUSY=1
	@$(PY) bench/sim/figures.py $(or $(PAGE),transport) $(if $(ONLY),--only "$(ONLY)") $(if $(BUSY),--busy)

bench-failures: build ## seeded link failures in a lab, and signalling: N=200 SILENT=50 SEED=1 LINK_MBIT=50 JSON=failures.json
	@$(ALONE) $(PY) bench/failures/failures.py --failures $(or $(N),200) --silent $(or $(SILENT),50) --seed $(or $(SEED),1) \
	  --link $(or $(LINK_MBIT),50) --json $(if $(filter report.json,$(JSON)),failures.json,$(JSON))

bench-path: build ## one host to one over a switch and over tunnels: WAYS=switch,switch-memif,tunnels REPEAT=3 SIZE=1G WORKERS=1,2,4 BESIDE=folder FILES=folder JSON=path.json
	@$(ALONE) $(PY) bench/path/path.py $(if $(WAYS),--ways $(WAYS)) --repeat $(or $(REPEAT),3) $(if $(BESIDE),--beside $(BESIDE)) $(if $(FILES),--files $(FILES)) \
	  $(if $(WORKERS),--workers $(WORKERS)) \
	  --size $(if $(filter command line,$(origin SIZE)),$(SIZE),1G) $(if $(filter report.json,$(JSON)),,--json $(JSON))

bench-peers: build ## Datacast beside libtorrent, UFTP and udpcast on the same links: RATE=2gbit SIZE=1G CASES=clean JSON=peers.json
	@missing=$$(for p in uftp udpcast; do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	  [ -z "$$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null
	@$(PY) -c 'import libtorrent' 2>/dev/null || $(PY) -m pip install -q --disable-pip-version-check -e '.[peers]' --no-build-isolation
	@$(ALONE) $(PY) bench/peers/peers.py --rate $(or $(RATE),2gbit) --size $(if $(filter command line,$(origin SIZE)),$(SIZE),1G) \
	  $(if $(CASES),--cases $(CASES)) $(if $(ONLY),--only $(ONLY)) $(if $(filter report.json,$(JSON)),,--json $(JSON))

# Does its own set-up. Root tests skip, with the reason, without root.
test: ## everything: static checks, C tests, sanitizers, Python, whole labs; JOBS=1: nothing side by side
	@echo "set-up and build"; $(MAKE) --no-print-directory build
	@echo "static checks"; $(AGAIN) --output-sync=target lint c-test-programs
	@echo "Python tests, whole labs, and C tests, plain and under ASan and UBSan"; $(MAKE) --no-print-directory test-py FIRST_BESIDE=test-c

# Tests marked `lab` are tried again when they fail (tests/conftest.py); the summary names them (R). JOBS: so many test
# processes for all but the labs: three for each core, as they wait more than they compute. Processes take tests over from each
# other; a file of labs stays with one, which makes what its tests share once. Labs are beside the others, LABS_AT_ONCE, and go
# before them: their links are slow, and while they wait the others have the processors. With one for each core labs and the
# others are over at about the same time; with more, labs are over sooner, and the others alone do not fill the processors.
# Those marked `alone` have the machine for themselves at the end. Files that hold no lab are not read for them. What labs leave of
# the processors the C tests take (`make test` alone has them, built before: tests build programs of the same parts), then analysis.
JOBS ?= $(shell n=$$(($$(nproc) * 3)); echo $$((n < 8 ? n : 8)))
LABS_AT_ONCE ?= $(shell n=$$(nproc); echo $$((n < 2 ? 2 : n < 6 ? n : 6)))
SIDE_BY_SIDE = -n $(JOBS) --dist worksteal -m "not lab"
LAB_FILES = $(shell grep -rlE 'pytest\.mark\.lab\b' tests --include='test_*.py')
LABS = -n $(LABS_AT_ONCE) --dist loadfile -m "lab and not alone" $(LAB_FILES)
TEST_PROGRAMS = $(addprefix $(BUILD)/,datacast-agent-asan asan/datacast-switch tools/versitygw)
# An S3 server that Debian does not have. Where Go cannot build it, tests of S3 are skipped, with what Go said.
VERSITYGW = github.com/versity/versitygw/cmd/versitygw@v1.8.0
$(BUILD)/tools/versitygw:
	@mkdir -p $(@D); echo "S3 server for tests: $(VERSITYGW)"
	@if ! command -v go >/dev/null; then echo "there is no Go to build it with (Debian's golang-go, or a newer one)"; \
	  else GOBIN=$(abspath $(@D)) go install -p 2 $(VERSITYGW) 2>$@.log || tail -n 1 $@.log; fi

# Sets are in the same order in every run.
test-py test-quick test-costs: export PYTHONHASHSEED := 0
test-py: build
	@$(AGAIN) $(TEST_PROGRAMS)
ifeq ($(JOBS),1)
	@$(if $(FIRST_BESIDE),$(MAKE) --no-print-directory $(FIRST_BESIDE))
	@nice -n 5 $(PY) -m pytest $(PYTEST_OPTIONS)
else
	@code=0; { $(if $(FIRST_BESIDE),nice -n 12 $(MAKE) --no-print-directory $(FIRST_BESIDE) &&) nice -n 19 chrt --idle 0 $(MAKE) --no-print-directory analyze; } \
	    >$(BUILD)/beside.log 2>&1 || { echo "failed beside them:"; tail -n 100 $(BUILD)/beside.log; false; } & beside=$$!; \
	  env --default-signal=INT nice -n 5 $(PY) -m pytest -q $(LABS) $(PYTEST_OPTIONS) >$(BUILD)/labs.log 2>&1 & labs=$$!; \
	  nice -n 12 $(PY) -m pytest -q $(SIDE_BY_SIDE) $(PYTEST_OPTIONS) || code=$$?; \
	  echo "whole labs, beside them"; wait $$labs || code=$$?; cat $(BUILD)/labs.log; \
	  echo "what C tests, clang-tidy and gcc's analyzer say"; wait $$beside || code=$$?; \
	  nice -n 5 $(PY) -m pytest -q -m "lab and alone" $(LAB_FILES) $(PYTEST_OPTIONS) || code=$$?; exit $$code
endif

test-quick: build ## before each commit: what needs neither root nor a lab, and is not slow by itself
	@nice -n 5 $(PY) -m pytest -q $(SIDE_BY_SIDE) -m "not root and not lab and not slow" $(PYTEST_OPTIONS)

# Hours in parts, seeded by the day's number. What a part said stands in build/long, with a file when it is done on a revision.
LONG = analyze draws campaigns sites clockwork clockwork-bugs power-loss listed mutants fuzz faults
DAY := $(shell echo $$(($$(date +%s) / 86400)))
LONG_analyze = analyze DEEP=1
LONG_draws = draws
LONG_campaigns = sim FIRST=$(DAY)000000 SEEDS=200000
LONG_sites = sites SEEDS=$(DAY)000:$(DAY)300
LONG_clockwork = clockwork SEEDS=$(DAY)0000:$(DAY)9999
LONG_clockwork-bugs = clockwork-bugs
LONG_power-loss = power-loss
LONG_listed = mutants LISTED=1
LONG_mutants = mutants N=300
LONG_fuzz = fuzz TIME=600
LONG_faults = test-faults
REVISION = $(shell git rev-parse --short=10 HEAD)
LONG_DONE = $(foreach part,$(or $(ONLY),$(LONG)),$(BUILD)/long/$(REVISION)-$(part))
test-long: build ## deep analysis, draws, campaigns, clockwork, power cuts, mutants, fuzzing, fault matrix: hours; goes on where it stopped: ONLY=fuzz
	@$(MAKE) --no-print-directory -k $(LONG_DONE); cat $(LONG_DONE)

$(BUILD)/long/$(REVISION)-%:
	@mkdir -p $(@D); echo "$*: make $(LONG_$*)"
	@$(MAKE) --no-print-directory $(LONG_$*) >$@.log 2>&1 || { tail -n 5 $@.log; exit 1; }
	@{ date -u "+%F $(REVISION) $*: make $(LONG_$*)"; tail -n 1 $@.log; } >$@.tmp; mv $@.tmp $@

test-costs: build ## processor time and waiting of every test, which hold where the machine has other work: build/costs
	@$(AGAIN) $(TEST_PROGRAMS)
	@PYTHONPATH=tests nice -n 5 $(PY) -m pytest -q -p costs $(SIDE_BY_SIDE) $(PYTEST_OPTIONS) || true
	@$(PY) tests/costs.py

test-faults: build ## the fault matrix on real labs, some twenty minutes; PLANE=memif or ip: the rows that another data plane can do
	@DATACAST_FAULTS=1 DATACAST_FAULTS_PLANE=$(PLANE) env --default-signal=INT nice -n 5 $(PY) -m pytest -v tests/lab/test_fault_matrix.py \
	  $(if $(PLANE),,tests/lab/test_lab_life.py tests/lab/test_lab_site_diamond.py tests/mininet)

# The same objects under the core's own tests, the fault campaigns and the tests in Python.
COVERED := $(BUILD)/coverage
COVERED_CORE = $$(ls $(COVERED)/*.o | grep -v /test_)
coverage: build ## lines and branches of the core that tests reach: SHOW="wire.c hello.c" names what they do not
	@rm -rf $(COVERED); mkdir -p $(COVERED)
	@ls libdatacast/src/*.c libdatacast/tests/test_*.c | xargs -P $(shell nproc) -I{} sh -c '$(CC) -std=gnu11 -g -fPIC \
	  -fno-strict-aliasing -Ilibdatacast/include -Ilibdatacast/src --coverage -c {} -o $(COVERED)/$$(basename {} .c).o'
	@ls $(COVERED)/test_*.o | xargs -P $(shell nproc) -I{} sh -c '$(CC) --coverage {} $(COVERED_CORE) -o {}.run && {}.run >/dev/null'
	@mkdir -p $(COVERED)/sim; for f in $(SIM_CAMPAIGN) $(SIM_SRC); do \
	  $(CC) $(filter-out -flto=auto,$(SIM_CFLAGS)) -c $$f -o $(COVERED)/sim/$$(basename $$f .c).o; done
	@$(CC) --coverage $(COVERED)/sim/*.o $(COVERED_CORE) -lm -o $(COVERED)/sim/campaign
	@$(COVERED)/sim/campaign --seeds 60 --quiet
	@$(PY) -c 'import sys; sys.path.insert(0, "libdatacast/python"); import build_core; build_core.ffi.emit_c_code("$(COVERED)/_core.c")'
	@$(CC) -std=gnu11 -O1 -shared -fPIC --coverage -fno-profile-arcs -fno-test-coverage -Ilibdatacast/include -Ilibdatacast/src \
	  -Ilibdatacast/python $$($(PY) -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))') \
	  $(COVERED)/_core.c $(COVERED_CORE) -o $(COVERED)/_core.so
	@DATACAST_INSTRUMENTED=$(CURDIR)/$(COVERED)/_core.so PYTHONPATH=tests $(PY) -m pytest -q -p instrumented tests/wire tests/trees tests/planners
	@$(PY) tests/core_coverage.py $(COVERED) $(SHOW)

# By tests that are no whole labs; services that are processes of their own count too.
COVERED_BY := $(addprefix tests/,cli clockwork conformance controller fabric_manager lab master mirror openflow origins p4 planners \
  powerloss security services simulation store topologies trees)
coverage-services: build ## lines and branches of the services that tests reach: SHOW="master/pace.py" names what they do not
	@rm -rf $(COVERED)-services
	@nice -n 5 $(PY) -m coverage run -m pytest -q -n $(shell nproc) --dist loadfile -m "not lab" $(COVERED_BY) $(PYTEST_OPTIONS) || true
	@$(PY) -m coverage combine -q; $(PY) -m coverage report $(if $(SHOW),--show-missing --include="$(subst $() ,$(comma),$(SHOW))")

mutants: build ## one-line changes that tests should notice, resumable: N=300 SEED=1 PART=core TREES=2, LISTED=1, AGAIN_ONLY=1
	@nice -n 10 $(PY) tests/mutants/run.py --count $(or $(N),300) --seed $(or $(SEED),1) $(if $(PART),--part $(PART)) \
	  $(if $(LISTED),--listed) $(if $(AGAIN_ONLY),--again) --trees $(or $(TREES),$(shell nproc))

DRAWING = $(shell grep -rlE 'from drawing|@given' tests --include='test_*.py')
draws: build ## input that tests make up, drawn by chance where every other run draws the same: TIMES=50
	@DATACAST_DRAWS=$(or $(TIMES),50) PYTHONHASHSEED=random nice -n 10 $(PY) -m pytest -q -n $(shell nproc) --timeout 7200 $(DRAWING)

# In memory: the disk would be waited for, and what it may lose is what tests/powerloss/disk.py says, not what it does.
power-loss: build ## ten thousand seeded losses of power under store, files and certificates: CUTS=10000
	@room=$$(mktemp -d /dev/shm/power-loss.XXXXXX); trap 'rm -rf "$$room"' EXIT; \
	  DATACAST_CUTS=$(or $(CUTS),10000) $(PY) -m pytest -q --timeout 3600 --basetemp "$$room/tests" tests/powerloss

kills: build ## leader, workers, controller and etcd's members killed under transfers in a lab: KILLS=200 SEED=1
	@PYTHONPATH=tests $(PY) -m kills --kills $(or $(KILLS),200) --seed $(or $(SEED),1)

sites: build ## controllers of three sites under faults, in real time, four seeds a minute: SEEDS=0:100
	@PYTHONPATH=tests/services_kit nice -n 10 $(PY) -m site_campaign $(or $(SEEDS),0:100)

clockwork: build ## the control plane in simulated time: SEEDS=0:10000, or one
	@PYTHONPATH=tests nice -n 10 $(PY) -m clockwork $(or $(SEEDS),0:10000) -j $(shell nproc)

clockwork-bugs: build ## mistakes put back into the services: the simulation must find each
	@PYTHONPATH=tests nice -n 10 $(PY) -m clockwork --bugs $(or $(SEEDS),0:400) -j $(shell nproc)

# mypy knows no package map: it gets a folder of links.
ROOMS := services origins topologies planners lab fabric_manager master controller mirror cli simulation

# Debian's tools for packages are wanted here only.
PACKAGE_TOOLS := dpkg-dev debhelper help2man lintian debootstrap python3-numpy curl systemd-container procps
CLEAN_DEBIAN := $(BUILD)/debian-12
packages: setup ## Debian packages of agent, switch and controller in build/packages
	@missing=$$(for p in $(PACKAGE_TOOLS); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	[ -z "$$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >$(BUILD)/apt-packages.log
	@packaging/build $(BUILD)/packages >$(BUILD)/packages.log 2>&1 || { tail -30 $(BUILD)/packages.log >&2; exit 1; }
	@lintian --fail-on error,warning --tag-display-limit 3 $(BUILD)/packages/*.deb; ls -l $(BUILD)/packages/*.deb

# A base image of our own: no registry is asked.
IMAGE_TOOLS := buildah podman runc catatonit python3-yaml
test-image: packages ## container images from the packages, and a file between containers, some as the DaemonSet's pods
	@missing=$$(for p in $(IMAGE_TOOLS); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	[ -z "$$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >$(BUILD)/apt-image.log
	@$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[images]'
	@$(VENV)/bin/kubernetes-validate --strict --quiet packaging/container/daemonset.yaml
	@packaging/container/try $(BUILD)/packages $(BUILD)/containers $(CLEAN_DEBIAN)

docs: build ## the documentation site in build/docs
	@$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[docs]'
	@$(PY) docs/tools/site.py $(BUILD)/docs-src
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build -q --strict

# mkdocs follows links between pages; this follows all, out into the world too. The repository has no address yet.
LINKS_PORT ?= 8765
docs-links: docs ## every link of the site, those to other sites too (needs the network)
	@command -v linkchecker >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends linkchecker >$(BUILD)/apt-links.log
	@$(PY) -m http.server -b 127.0.0.1 -d $(BUILD)/docs $(LINKS_PORT) >$(BUILD)/docs-links.log 2>&1 & trap "kill $$!" EXIT; sleep 1; \
	linkchecker --no-status --no-warnings --check-extern --timeout 20 --ignore-url '^https?://(example[.]org|127[.]0[.]0[.]1:75)' \
	  http://127.0.0.1:$(LINKS_PORT)/index.html

test-packages: packages ## the packages on clean machines under systemd: install, join, use, restart, upgrade, remove
	@packaging/try $(BUILD)/packages $(BUILD)/machines $(CLEAN_DEBIAN)

FORMATTED := '*.[ch]' ':!libdatacast/include/datacast/constants.h' # which is made
# What outlives a clone: what was checked once on this machine.
CACHED := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/datacast
lint: $(BUILD)/.venv ## ruff, import contracts, types, folder layout
	@$(VENV)/bin/ruff check .
	@git ls-files $(FORMATTED) | xargs $(VENV)/bin/clang-format --dry-run --Werror
	@mkdir -p $(BUILD)/types/datacast; ln -sfn $(CURDIR)/libdatacast/python $(BUILD)/types/datacast/core
	@for room in $(ROOMS); do ln -sfn $(CURDIR)/$$room $(BUILD)/types/datacast/$$room; done
	@ln -sfn $(CURDIR)/mn $(BUILD)/types/datacast/mininet
	@MYPYPATH=$(BUILD)/types $(VENV)/bin/mypy --cache-dir $(CACHED)/types $(ROOMS:%=-p datacast.%) -p datacast.mininet
	@$(PY) -m pytest -q tests/test_layout.py tests/test_docs.py

format: $(BUILD)/.venv ## C as .clang-format says
	@git ls-files $(FORMATTED) | xargs $(VENV)/bin/clang-format -i

# What compilers do not say: clang-tidy (.clang-tidy) and gcc's analyzer over the C that runs in daemons. Clang's own analyzer
# follows fewer ways than it would, which takes a third of the time; `make test-long` has DEEP=1. What was clean once is
# not looked at again on this machine: a file after the preprocessor, with its comments and macros, is what counts, under these
# rules and tools. gcc takes lists whose links stand inside their members for leaks; the sanitized tests look for real ones.
ANALYZED := libdatacast/src datapath dpdk_cache host_agent
ANALYZED_C := $(wildcard $(ANALYZED:%=%/*.c))
ANALYZED_H := $(wildcard $(ANALYZED:%=%/*.h) libdatacast/include/datacast/*.h)
ANALYZE_FLAGS = -D_GNU_SOURCE -std=gnu11 -Ilibdatacast/include -I. -Ihost_agent -Idpdk_cache \
  -isystem $(BLAKE3_DIR) $(shell pkg-config --cflags libdpdk jansson yaml-0.1 libcurl | sed 's/-I/-isystem /g')
ANALYSES ?= $(CACHED)/analyzed
FEWER = -Xclang -analyzer-config -Xclang max-nodes=50000
TIDY_FLAGS = $(ANALYZE_FLAGS) $(if $(DEEP),,$(FEWER))
analyze: setup ## clang-tidy and gcc's analyzer on the C of the daemons: minutes, and then only what has changed; DEEP=1
	@command -v clang-tidy >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang-tidy >/dev/null
	@mkdir -p $(ANALYSES) $(BUILD)/analyzed; find $(ANALYSES) -type f -mtime +30 -delete
	@{ cat .clang-tidy; echo '$(TIDY_FLAGS) $(ANALYZER_FLAGS)'; clang-tidy --version; $(CC) --version; } >$(BUILD)/analyzed/rules
	@$(AGAIN) -k analyzed

ANALYZED_AS := $(BUILD)/analyzed/$(if $(DEEP),all,fewer)
analyzed: $(ANALYZED_C:%.c=$(ANALYZED_AS)/%.ok)

ANALYZER_FLAGS := -O2 -fanalyzer -Werror -Wno-analyzer-malloc-leak
$(ANALYZED_AS)/%.ok: %.c $(ANALYZED_H) .clang-tidy
	@mkdir -p $(@D)
	@clean=$(ANALYSES)/$$({ cat $(BUILD)/analyzed/rules; $(CC) $(ANALYZE_FLAGS) -E -C -dD $<; } | sha256sum | cut -c1-64); \
	if [ ! -e $$clean ]; then \
	  clang-tidy --quiet $< -- $(TIDY_FLAGS) 2>/dev/null; \
	  $(CC) $(ANALYZE_FLAGS) $(ANALYZER_FLAGS) -c $< -o /dev/null; \
	fi; touch $$clean $@

# What cannot be looked up fails too: a mirror of PyPI without its advisories says nothing.
AUDIT := $(BUILD)/audit
audit: setup ## known holes in the Python packages installed here: asks PyPI
	@[ -x $(AUDIT)/bin/pip-audit ] || { python3 -m venv $(AUDIT) && $(AUDIT)/bin/pip install -q --disable-pip-version-check pip-audit; }
	@$(VENV)/bin/pip freeze --exclude-editable --local >$(AUDIT)/installed.txt
	@$(AUDIT)/bin/pip-audit --strict --disable-pip --no-deps --progress-spinner off -r $(AUDIT)/installed.txt

clean: ## remove what the build made
	rm -rf $(BUILD) $(VENV) *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f libdatacast/python/_core*.so libdatacast/python/_core.c
