# The simulator: the engine together with the whole core in one shared library, optimised across both. Two more
# libraries hold the same core with another store policy (experiments only; the product's is FIFO).

SIM_DIR := simulation
SIM_OUT := $(BUILD)/simulation
SIM_SRC := $(wildcard $(SIM_DIR)/src/*.c)
# Without the tree engine: trees come in through Python.
SIM_CORE := $(foreach f,$(wildcard libdatacast/src/*.c),$(if $(findstring /trees,$(f)),,$(f)))
SIM_CAMPAIGN := $(wildcard $(SIM_DIR)/campaign/*.c)
SIM_HEADERS := $(wildcard $(SIM_DIR)/campaign/*.h $(SIM_DIR)/src/*.h libdatacast/src/*.h libdatacast/include/datacast/*.h)
SIM_CFLAGS := $(CFLAGS_BASE) -O3 -flto=auto -fno-semantic-interposition -I$(SIM_DIR)/src -Ilibdatacast/src
SIM_LIBS := $(SIM_OUT)/libdatacast_sim.so $(SIM_OUT)/libdatacast_sim_lru.so $(SIM_OUT)/libdatacast_sim_lfu.so
FIRST ?= 1

BINARIES += $(SIM_LIBS)
C_TESTS += test-sim
C_TEST_PROGRAMS += $(SIM_OUT)/campaign_asan

.PHONY: sim test-sim bench-sim

$(SIM_OUT)/libdatacast_sim.so: $(SIM_SRC) $(SIM_CORE) $(SIM_HEADERS) $(SIM_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -fPIC -shared $(SIM_SRC) $(SIM_CORE) -lm -o $@.tmp && mv $@.tmp $@

$(SIM_OUT)/libdatacast_sim_%.so: $(SIM_DIR)/policies/store_%.c $(SIM_SRC) $(SIM_CORE) $(SIM_HEADERS) $(SIM_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -DSIM_ROOM=256 -fPIC -shared $(SIM_SRC) $(filter-out %/store.c,$(SIM_CORE)) $< -lm -o $@.tmp && mv $@.tmp $@

# Fault campaigns: plain for speed, under sanitizers for the tests.
$(SIM_OUT)/campaign: $(SIM_CAMPAIGN) $(SIM_SRC) $(SIM_CORE) $(SIM_HEADERS) $(SIM_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) $(SIM_CAMPAIGN) $(SIM_SRC) $(SIM_CORE) -lm -o $@

$(SIM_OUT)/campaign_asan: $(SIM_CAMPAIGN) $(SIM_SRC) $(CORE_LIB_ASAN) $(SIM_HEADERS) $(SIM_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) -I$(SIM_DIR)/src $(SIM_CAMPAIGN) $(SIM_SRC) $(CORE_LIB_ASAN) -lm -o $@

sim: $(SIM_OUT)/campaign ## run fault campaigns in the simulator (SEEDS=1000 FIRST=1, or REPLAY=FILE)
	@$(SIM_OUT)/campaign $(if $(REPLAY),--replay $(REPLAY),--seeds $(or $(SEEDS),1000) --first $(FIRST) --keep $(SIM_OUT))

bench-sim: build ## packet hops per second, large networks against a small one: HOPS=20 RECEIVERS=64,1024
	@$(PY) bench/sim/speed.py $(if $(HOPS),--hops $(HOPS)) $(if $(RECEIVERS),--receivers $(RECEIVERS))

# Transfers that once crawled after their faults were over.
CRAWLED := 1811 5403 9897 11674 11810 13306 13816 14968 14985 16088 21631 22679 22953 23901 24423 \
	34888 36668 47549 48058 49298 49365 50418 75898 90558 11046 17330 \
	45689 54011 102683 128162 132613 133008 133631 134897 140943 \
	28554 38279 49058 49554 67281 92784 102471 112921 140298 146707 148110 202024 283183 104975

test-sim: $(SIM_OUT)/campaign_asan
	@$(SIM_OUT)/campaign_asan --seeds 60 --quiet
	@for s in $(CRAWLED); do $(SIM_OUT)/campaign_asan --first $$s --seeds 1 --quiet || exit 1; done
