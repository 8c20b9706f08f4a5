# `make p4`: compile the P4 programs for bmv2. p4c is not in Debian; nothing else needs it.
P4C ?= p4c-bm2-ss
P4_SRC := $(filter-out p4src/swx/%,$(wildcard p4src/*/*.p4)) p4src/parser.p4
P4_PROGRAMS := datacast node
P4_OUT := $(foreach p,$(P4_PROGRAMS),$(BUILD)/p4/$(p).json $(BUILD)/p4/$(p).p4info.bin)

# Where p4c is at hand the P4 program is a part of the build like any other.
ifneq ($(shell command -v $(P4C)),)
BINARIES += $(P4_OUT)
endif

# The same for p4c-dpdk: the forwarding on DPDK's SWX pipeline (docs/decisions/p4-on-swx.md).
P4C_DPDK ?= p4c-dpdk
SWX_BIN := $(BUILD)/datacast-swx
SWX_FLAGS = -DALLOW_EXPERIMENTAL_API $(shell pkg-config --cflags libdpdk | sed 's/-I/-isystem /g')
ifneq ($(shell command -v $(P4C_DPDK)),)
P4_OUT += $(BUILD)/p4/psa.spec $(SWX_BIN)
BINARIES += $(BUILD)/p4/psa.spec $(SWX_BIN)
endif

$(BUILD)/p4/psa.spec: p4src/swx/psa.p4 p4src/include/constants.p4 p4src/shared/reasons.p4 p4src/build.mk
	@mkdir -p $(@D)
	$(P4C_DPDK) --arch psa --std p4-16 --Werror -o $@ $<

$(SWX_BIN): $(wildcard p4src/swx/*.[ch]) p4src/build.mk
	@echo 'CC $@'; $(CC) $(CFLAGS_BASE) $(SWX_FLAGS) $(filter %.c,$^) $(shell pkg-config --libs libdpdk) -o $@

.PHONY: p4
p4: ## compile the P4 programs for bmv2 (needs p4c-bm2-ss on the PATH)
	@if command -v $(P4C) >/dev/null; then \
	  $(MAKE) --no-print-directory $(P4_OUT); \
	else \
	  echo "datacast: $(P4C) is not on the PATH, so p4src/ is not compiled and the bmv2 data plane is not available." >&2; \
	  echo "Get p4c and bmv2 from p4lang: packages p4lang-p4c and p4lang-bmv2 (https://p4.org, repository of the" >&2; \
	  echo "Open Build Service project home:p4lang), or build github.com/p4lang/p4c and behavioral-model; then make p4." >&2; \
	  exit 3; \
	fi

$(BUILD)/p4/%.json $(BUILD)/p4/%.p4info.bin &: p4src/%.p4 $(P4_SRC) p4src/build.mk
	@mkdir -p $(BUILD)/p4
	$(P4C) --std p4-16 --Werror -o $(BUILD)/p4/$*.json --p4runtime-files $(BUILD)/p4/$*.p4info.bin,$(BUILD)/p4/$*.p4info.txt $<
