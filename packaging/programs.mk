# The two C programs alone, for the packages: no Python, no tests, the compiler's flags from dpkg-buildflags.
BUILD := build/package
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
override CC := gcc $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
CFLAGS_BASE := -std=gnu11 -O2 -g -fno-strict-aliasing -Ilibdatacast/include
SANITIZE :=
BINARIES :=
C_TESTS :=

.PHONY: programs
programs:
include libdatacast/build.mk datapath/build.mk dpdk_cache/build.mk host_agent/build.mk console/build.mk
programs: $(BUILD)/datacast-agent $(BUILD)/datacast-switch $(CONSOLE)/.made
