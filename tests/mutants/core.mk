# The core in a copy that `make mutants` changes: one object and one link for each change, and then its C tests. Everything else
# finds the core in a shared library. make -f tests/mutants/core.mk

OUT := build/mutant-core
CC := gcc
CFLAGS := -std=gnu11 -O1 -g -fPIC -fno-strict-aliasing -Ilibdatacast/include -Ilibdatacast/src
PY := .venv/bin/python
HERE = -L$(OUT) -lcore -Wl,-rpath,$(abspath $(OUT))
CORE := $(patsubst libdatacast/src/%.c,$(OUT)/%.o,$(wildcard libdatacast/src/*.c))
# First what is named as the changed file is (CHANGED: trees_attach), and last what takes a tenth of a second and more.
ALL := $(patsubst libdatacast/tests/%.c,$(OUT)/%,$(wildcard libdatacast/tests/test_*.c))
NEAR := $(filter $(OUT)/test_$(firstword $(subst _, ,$(or $(CHANGED),none)))%,$(ALL))
SLOW := $(filter-out $(NEAR),$(patsubst %,$(OUT)/test_%,receiver garbage cc rates node_burst trees))
TESTS := $(NEAR) $(filter-out $(NEAR) $(SLOW),$(ALL)) $(SLOW)
# Seconds of a processor, a busy machine or not: the slowest test takes two.
HUNG := 8
SIM := $(patsubst simulation/src/%.c,$(OUT)/sim/%.o,$(wildcard simulation/src/*.c))
CAMPAIGN := $(patsubst simulation/campaign/%.c,$(OUT)/campaign/%.o,$(wildcard simulation/campaign/*.c))

.PHONY: all built campaign
all: built
	@ulimit -t $(HUNG); for t in $(TESTS); do timeout 300 $$t >/dev/null || { echo "failed: $$t"; exit 1; }; done
campaign: built
	@ulimit -t 60; timeout 300 $(OUT)/campaign/run --seeds 60 --quiet
built: $(TESTS) $(OUT)/libdatacast_sim.so $(OUT)/campaign/run $(OUT)/binding

$(OUT)/%.o: libdatacast/src/%.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -c $< -o $@

$(OUT)/libcore.so: $(CORE)
	@$(CC) -shared $^ -o $@

$(OUT)/test_%: libdatacast/tests/test_%.c | $(OUT)/libcore.so
	@$(CC) $(CFLAGS) $< $(HERE) -o $@

$(OUT)/sim/%.o: simulation/src/%.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -Isimulation/src -c $< -o $@

$(OUT)/campaign/%.o: simulation/campaign/%.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -Isimulation/src -c $< -o $@

$(OUT)/libdatacast_sim.so: $(SIM) | $(OUT)/libcore.so
	@$(CC) -shared $^ $(HERE) -lm -o $@
	@ln -sf $(abspath build/simulation)/libdatacast_sim_l*.so $(OUT)/

$(OUT)/campaign/run: $(SIM) $(CAMPAIGN) | $(OUT)/libcore.so
	@$(CC) $^ $(HERE) -lm -o $@

# In the place of the binding that `make build` made.
$(OUT)/binding: | $(OUT)/libcore.so
	@$(PY) -c 'import sys; sys.path.insert(0, "libdatacast/python"); import build_core; build_core.ffi.emit_c_code("$(OUT)/_core.c")'
	@for so in libdatacast/python/_core*.so; do $(CC) $(CFLAGS) -shared -Ilibdatacast/python \
	  $$($(PY) -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))') $(OUT)/_core.c $(HERE) -o $$so || exit 1; done
	@touch $@

.DELETE_ON_ERROR:
# One object at a time is quick enough, and the first order may take all processors.
$(TESTS) $(OUT)/libdatacast_sim.so $(OUT)/campaign/run $(OUT)/binding: | $(OUT)/libcore.so
# A changed core is in the library before anything runs.
built: $(OUT)/libcore.so
