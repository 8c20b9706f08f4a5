# make fuzz TIME=600: libFuzzer (clang) on the core, on connections, on a whole agent and on what is said to a switch, TIME
# seconds each, as many at once as there are processors; a crash leaves its input in build/fuzz and fails. `make test-c` replays the inputs kept in the repository with
# the ordinary compiler.

TIME ?= 60
FUZZ_DIR := $(CORE_DIR)/fuzz
FUZZ_OUT := $(BUILD)/fuzz
FUZZ_CORE := wire node source receiver hello
FUZZERS := $(FUZZ_CORE) memif conn answer bundle objects agent switch
FUZZ_FLAGS := -D_GNU_SOURCE -I. -I$(CORE_DIR)
FUZZ_CLANG := clang -std=gnu11 -O1 -g -I$(CORE_DIR)/include $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
FUZZ_HEADERS := $(FUZZ_DIR)/script.h $(wildcard $(CORE_DIR)/src/*.h $(CORE_DIR)/include/datacast/*.h $(DATAPATH_DIR)/*.h)
FUZZ_ANSWER_SRC := $(addprefix $(AGENT_DIR)/,fuzz/fuzz_answer.c answer.c origin.c)
FUZZ_BUNDLE_SRC := $(addprefix $(AGENT_DIR)/,fuzz/fuzz_bundle.c bundle.c xattrs.c)
FUZZ_OBJECTS_SRC := $(addprefix $(AGENT_DIR)/,fuzz/fuzz_objects.c objects.c bundle.c xattrs.c origin.c params.c)
FUZZ_AGENT_OWN := $(filter-out $(FUZZ_ANSWER_SRC) $(FUZZ_BUNDLE_SRC) $(FUZZ_OBJECTS_SRC),$(wildcard $(AGENT_DIR)/fuzz/*.c))
FUZZ_AGENT_SRC := $(FUZZ_AGENT_OWN) $(filter-out %/main.c,$(AGENT_SRC)) $(DATAPATH_SRC) $(CORE_SRC)
FUZZ_SWITCH_SRC := $(filter-out %/main.c,$(SWITCH_SRC)) $(CORE_SRC) $(DATAPATH_SRC)

FUZZ_CORPUS = $(firstword $(wildcard $(FUZZ_DIR)/corpus/$(1) $(AGENT_DIR)/fuzz/corpus/$(1) $(SWITCH_DIR)/fuzz/corpus/$(1)))
# DPDK keeps what it has allocated.
FUZZ_KEEP := switch

.PHONY: fuzz test-c-fuzz
C_TESTS += test-c-fuzz

$(FUZZ_OUT)/.clang:
	@command -v clang >/dev/null || { echo "make fuzz needs clang with libFuzzer: apt-get install clang" >&2; exit 1; }
	@mkdir -p $(@D); touch $@

# Every source file that exists is compiled in: clang's coverage must see the code itself.
$(FUZZ_CORE:%=$(FUZZ_OUT)/%): $(FUZZ_OUT)/%: $(FUZZ_DIR)/fuzz_%.c $(CORE_SRC) $(FUZZ_HEADERS) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) $< $(CORE_SRC) -o $@

$(FUZZ_OUT)/memif: $(FUZZ_DIR)/fuzz_memif.c $(addprefix $(DATAPATH_DIR)/,memif_ring.c bufpool.c) $(FUZZ_HEADERS) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) $(filter %.c,$^) -o $@

$(FUZZ_OUT)/conn: $(FUZZ_DIR)/fuzz_conn.c $(DATAPATH_SRC) $(CORE_SRC) $(FUZZ_HEADERS) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) $< $(DATAPATH_SRC) $(CORE_SRC) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/answer: $(FUZZ_ANSWER_SRC) $(DATAPATH_SRC) $(FUZZ_HEADERS) $(wildcard $(AGENT_DIR)/*.h) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) -I$(AGENT_DIR) $(FUZZ_ANSWER_SRC) $(DATAPATH_SRC) $(CORE_SRC) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/bundle: $(FUZZ_BUNDLE_SRC) $(DATAPATH_SRC) $(FUZZ_HEADERS) $(wildcard $(AGENT_DIR)/*.h) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) -I$(AGENT_DIR) $(FUZZ_BUNDLE_SRC) $(DATAPATH_SRC) $(CORE_SRC) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/objects: $(FUZZ_OBJECTS_SRC) $(DATAPATH_SRC) $(FUZZ_HEADERS) $(wildcard $(AGENT_DIR)/*.h) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) -I$(AGENT_DIR) $(FUZZ_OBJECTS_SRC) $(DATAPATH_SRC) $(CORE_SRC) -ljansson -lssl -lcrypto -lpthread -o $@

# The agent's clock is the script's, libFuzzer's own is not.
$(FUZZ_OUT)/agent: $(FUZZ_AGENT_SRC) $(FUZZ_HEADERS) $(wildcard $(AGENT_DIR)/*.h $(AGENT_DIR)/fuzz/*.h) | $(FUZZ_OUT)/.clang $(BLAKE3_LIB)
	$(FUZZ_CLANG) -I$(AGENT_DIR) -isystem $(BLAKE3_DIR) -Dclock_gettime=script_clock $(FUZZ_AGENT_SRC) $(AGENT_LIBS) -o $@

$(FUZZ_OUT)/switch: $(SWITCH_DIR)/fuzz/fuzz_switch.c $(FUZZ_SWITCH_SRC) $(FUZZ_HEADERS) $(wildcard $(SWITCH_DIR)/*.h) | $(FUZZ_OUT)/.clang
	$(FUZZ_CLANG) -I$(SWITCH_DIR) $(SWITCH_CFLAGS) $< $(FUZZ_SWITCH_SRC) $(SWITCH_LIBS) -o $@

fuzz: $(FUZZERS:%=$(FUZZ_OUT)/%) ## fuzz parsers, node, source, receiver, hellos, signalling and the switch's control for TIME seconds each, JOBS at once (clang)
	@$(PY) $(FUZZ_DIR)/campaign.py --folder $(FUZZ_OUT) --time $(TIME) --jobs $(if $(filter command line,$(origin JOBS)),$(JOBS),$(shell nproc)) \
	  --no-leaks $(FUZZ_KEEP) $(foreach f,$(FUZZERS),$(f)=$(call FUZZ_CORPUS,$(f)))

# ---- the same inputs without clang ----
REPLAY_CC = $(CC) -std=gnu11 -I$(CORE_DIR)/include $(FUZZ_FLAGS) -Wall -Wextra $(SANITIZE) $(TEST_CFLAGS) -MMD -MP -MF $@.d
REPLAYS := $(FUZZERS:%=$(FUZZ_OUT)/replay-%)

$(FUZZ_CORE:%=$(FUZZ_OUT)/replay-%): $(FUZZ_OUT)/replay-%: $(FUZZ_DIR)/fuzz_%.c $(FUZZ_DIR)/replay.c $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) $< $(FUZZ_DIR)/replay.c $(CORE_LIB_ASAN) -o $@

$(FUZZ_OUT)/replay-memif: $(FUZZ_DIR)/fuzz_memif.c $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) $(filter %.c %.a,$^) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/replay-conn: $(FUZZ_DIR)/fuzz_conn.c $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) $< $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/replay-answer: $(FUZZ_ANSWER_SRC) $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) $(filter %.c %.a,$^) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/replay-bundle: $(FUZZ_BUNDLE_SRC) $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) $(filter %.c %.a,$^) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/replay-objects: $(FUZZ_OBJECTS_SRC) $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) $(filter %.c %.a,$^) -ljansson -lssl -lcrypto -lpthread -o $@

$(FUZZ_OUT)/replay-agent: $(FUZZ_AGENT_OWN) $(FUZZ_DIR)/replay.c $(filter-out %/main.o,$(AGENT_OBJ_ASAN)) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) | $(BLAKE3_LIB)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) -isystem $(BLAKE3_DIR) $(filter %.c %.o %.a,$^) $(AGENT_LIBS) -o $@

$(FUZZ_OUT)/replay-switch: $(SWITCH_DIR)/fuzz/fuzz_switch.c $(FUZZ_DIR)/replay.c $(SWITCH_PARTS_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(SWITCH_DIR) $(SWITCH_CFLAGS) $(filter %.c %.o %.a,$^) $(SWITCH_LIBS) -o $@

test-c-fuzz: $(REPLAYS)
	@$(foreach f,$(FUZZERS), \
	  ASAN_OPTIONS=detect_leaks=$(if $(filter $(FUZZ_KEEP),$(f)),0,1) $(FUZZ_OUT)/replay-$(f) $(call FUZZ_CORPUS,$(f)) || { echo "failed: $(f)" >&2; exit 1; };)

-include $(REPLAYS:=.d)
