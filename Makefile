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
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all

# Debian packages the build, the lab and the tests need.
DEBIAN_PACKAGES := build-essential pkg-config python3 python3-venv python3-dev python3-pip \
  dpdk libdpdk-dev libssl-dev libjansson-dev libyaml-dev \
  mininet openvswitch-switch iproute2 ethtool tcpdump

.PHONY: help setup build demo lab test test-c lint constants clean

help: ## show the targets
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(BUILD)/.packages $(BUILD)/.venv ## install Debian's packages and the Python environment

$(BUILD)/.packages: Makefile
	@mkdir -p $(BUILD)
	@missing=$$(for p in $(DEBIAN_PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  [ "$$(id -u)" = 0 ] || { echo "datacast: missing packages: $$missing; run as root: apt-get install $$missing" >&2; exit 1; }; \
	  echo "installing: $$missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >$(BUILD)/apt.log 2>&1 \
	    || { tail -20 $(BUILD)/apt.log >&2; exit 1; }; \
	fi
	@touch $@

# System site packages: Mininet is Debian's. Always Debian's python3, whatever comes first in PATH.
$(BUILD)/.venv: pyproject.toml setup.py | $(BUILD)/.packages
	@mkdir -p $(BUILD)
	@echo "Python environment in $(VENV)"
	@$(PY) -c '' 2>/dev/null || { rm -rf $(VENV); /usr/bin/python3 -m venv --system-site-packages $(VENV); }
	@$(PY) -m pip install -q --disable-pip-version-check 'setuptools>=68' wheel 'cffi>=1.16'
	@$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[test]'
	@touch $@

# The core's Python binding, compiled in place.
BINDING_SRC := $(wildcard libdatacast/python/build_core.py libdatacast/python/cdef/*.h libdatacast/src/*.[ch] \
  libdatacast/include/datacast/*.h)
$(BUILD)/.binding: $(BINDING_SRC) | $(BUILD)/.venv
	@echo "Python binding of the core"
	@$(PY) setup.py -q build_ext --inplace --build-temp $(BUILD)/binding >$(BUILD)/binding.log 2>&1 \
	  || { tail -30 $(BUILD)/binding.log >&2; exit 1; }
	@touch $@

# Each C part has its own fragment; they add files to BINARIES and targets to C_TESTS.
BINARIES :=
C_TESTS :=
-include libdatacast/build.mk
-include dpdk_cache/build.mk
-include host_agent/build.mk

test-c: $(C_TESTS) ## the C tests, plain and under ASan and UBSan

build: setup $(BINARIES) $(if $(wildcard libdatacast/python/build_core.py),$(BUILD)/.binding) ## build everything; leaves the command at .venv/bin/datacast

clean: ## remove what the build made
	rm -rf $(BUILD) $(VENV) *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f libdatacast/python/_core*.so libdatacast/python/_core.c
