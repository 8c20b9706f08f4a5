# make fuzz TIME=600: libFuzzer (clang) on the core, on connections, on a whole agent and on what is said to a switch, TIME
# seconds each, as many at once as there are processors; a crash leaves its input in build/fuzz and fails. `make test-c` replays the inputs kept in the repository with
# the ordinary compiler.

TIME ?= 60
FUZZ_DIR := $(CORE_DIR)/fuzz
FUZZ_OUT := $(BUILD)/fuzz
FUZZ_CORE := wire node source receiver hello
FUZZERS := $(FUZZ_CORE) memif tunnel conn answer bundle objects agent switch
FUZZ_FLAGS := -D_GNU_SOURCE -I. -I$(CORE_DIR)
FUZZ_CLANG := clang -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
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

# Sources are compiled once for all fuzzers, by clang, whose coverage must see the code itself. The agent's clock is the script's,
# libFuzzer's own is not: what the agent is made of is compiled once more. What is compared with what is not traced: inputs are
# scripts more than formats, and the source has four times the runs without.
FUZZ_CC = $(FUZZ_CLANG) -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp -I$(CORE_DIR)/include $(FUZZ_FLAGS) -MMD -MP \
  $(if $(filter $(AGENT_DIR)/%,$<),-I$(AGENT_DIR) -isystem $(BLAKE3_DIR)) $(if $(filter $(SWITCH_DIR)/%,$<),-I$(SWITCH_DIR) $(SWITCH_CFLAGS))

$(FUZZ_OUT)/plain/%.o: %.c | $(FUZZ_OUT)/.clang
	@mkdir -p $(@D)
	$(FUZZ_CC) -c $< -o $@

$(FUZZ_OUT)/clock/%.o: %.c | $(FUZZ_OUT)/.clang
	@mkdir -p $(@D)
	$(FUZZ_CC) -Dclock_gettime=script_clock -c $< -o $@

FUZZ_PLAIN = $(patsubst %.c,$(FUZZ_OUT)/plain/%.o,$(1))
FUZZ_LINK = $(FUZZ_CLANG) -fsanitize=fuzzer $(filter %.o,$^)
FUZZ_DATAPATH := $(call FUZZ_PLAIN,$(DATAPATH_SRC) $(CORE_SRC))
FUZZ_AGENT_OBJ := $(patsubst %.c,$(FUZZ_OUT)/clock/%.o,$(FUZZ_AGENT_SRC))
FUZZ_SWITCH_OBJ := $(call FUZZ_PLAIN,$(SWITCH_DIR)/fuzz/fuzz_switch.c $(filter-out %/main.c,$(SWITCH_SRC))) $(FUZZ_DATAPATH)

$(FUZZ_CORE:%=$(FUZZ_OUT)/%): $(FUZZ_OUT)/%: $(FUZZ_OUT)/plain/$(FUZZ_DIR)/fuzz_%.o $(call FUZZ_PLAIN,$(CORE_SRC))
	$(FUZZ_LINK) -o $@

# Its clock is the script's, too.
$(FUZZ_OUT)/tunnel: $(patsubst %.c,$(FUZZ_OUT)/clock/%.o,$(FUZZ_DIR)/fuzz_tunnel.c $(DATAPATH_SRC) $(CORE_SRC))
	$(FUZZ_LINK) $(DATAPATH_LIBS) -o $@

$(FUZZ_OUT)/memif $(FUZZ_OUT)/conn: $(FUZZ_OUT)/%: $(FUZZ_OUT)/plain/$(FUZZ_DIR)/fuzz_%.o $(FUZZ_DATAPATH)
$(FUZZ_OUT)/answer: $(call FUZZ_PLAIN,$(FUZZ_ANSWER_SRC)) $(FUZZ_DATAPATH)
$(FUZZ_OUT)/bundle: $(call FUZZ_PLAIN,$(FUZZ_BUNDLE_SRC)) $(FUZZ_DATAPATH)
$(FUZZ_OUT)/objects: $(call FUZZ_PLAIN,$(FUZZ_OBJECTS_SRC)) $(FUZZ_DATAPATH)
$(addprefix $(FUZZ_OUT)/,memif conn answer bundle objects):
	$(FUZZ_LINK) $(DATAPATH_LIBS) -o $@

$(FUZZ_OUT)/agent: $(FUZZ_AGENT_OBJ) | $(BLAKE3_LIB)
	$(FUZZ_LINK) $(AGENT_LIBS) -o $@

$(FUZZ_OUT)/switch: $(FUZZ_SWITCH_OBJ)
	$(FUZZ_LINK) $(SWITCH_LIBS) -o $@

-include $(patsubst %.o,%.d,$(FUZZ_AGENT_OBJ) $(FUZZ_SWITCH_OBJ) $(call FUZZ_PLAIN,$(FUZZ_CORE:%=$(FUZZ_DIR)/fuzz_%.c)))

fuzz: $(FUZZERS:%=$(FUZZ_OUT)/%) ## fuzz parsers, node, source, receiver, hellos, signalling and the switch's control for TIME seconds each, JOBS at once (clang)
	@$(PY) $(FUZZ_DIR)/campaign.py --folder $(FUZZ_OUT) --time $(TIME) --jobs $(if $(filter command line,$(origin JOBS)),$(JOBS),$(shell nproc)) \
	  --no-leaks $(FUZZ_KEEP) $(foreach f,$(FUZZERS),$(f)=$(call FUZZ_CORPUS,$(f)))

# ---- the same inputs without clang ----
REPLAY_CC = $(CC) -std=gnu11 -I$(CORE_DIR)/include $(FUZZ_FLAGS) -Wall -Wextra $(SANITIZE) $(TEST_CFLAGS) -MMD -MP -MF $@.d
REPLAYS := $(FUZZERS:%=$(FUZZ_OUT)/replay-%)

$(FUZZ_CORE:%=$(FUZZ_OUT)/replay-%): $(FUZZ_OUT)/replay-%: $(FUZZ_DIR)/fuzz_%.c $(FUZZ_DIR)/replay.c $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) $< $(FUZZ_DIR)/replay.c $(CORE_LIB_ASAN) -o $@

$(addprefix $(FUZZ_OUT)/replay-,memif tunnel conn): $(FUZZ_OUT)/replay-%: $(FUZZ_DIR)/fuzz_%.c $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) $(filter %.c %.a,$^) $(DATAPATH_LIBS) -o $@

$(FUZZ_OUT)/replay-answer: $(FUZZ_ANSWER_SRC) $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) $(filter %.c %.a,$^) $(DATAPATH_LIBS) -o $@

$(FUZZ_OUT)/replay-bundle: $(FUZZ_BUNDLE_SRC) $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) $(filter %.c %.a,$^) $(DATAPATH_LIBS) -o $@

$(FUZZ_OUT)/replay-objects: $(FUZZ_OBJECTS_SRC) $(FUZZ_DIR)/replay.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) $(filter %.c %.a,$^) $(DATAPATH_LIBS) -o $@

$(FUZZ_OUT)/replay-agent: $(FUZZ_AGENT_OWN) $(FUZZ_DIR)/replay.c $(filter-out %/main.o,$(AGENT_OBJ_ASAN)) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) | $(BLAKE3_LIB)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(AGENT_DIR) -isystem $(BLAKE3_DIR) $(filter %.c %.o %.a,$^) $(AGENT_LIBS) -o $@

$(FUZZ_OUT)/replay-switch: $(SWITCH_DIR)/fuzz/fuzz_switch.c $(FUZZ_DIR)/replay.c $(SWITCH_PARTS_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(REPLAY_CC) -I$(SWITCH_DIR) $(SWITCH_CFLAGS) $(filter %.c %.o %.a,$^) $(SWITCH_LIBS) -o $@

C_TEST_PROGRAMS += $(REPLAYS)
test-c-fuzz: $(REPLAYS)
	@$(foreach f,$(FUZZERS), \
	  ASAN_OPTIONS=detect_leaks=$(if $(filter $(FUZZ_KEEP),$(f)),0,1) $(FUZZ_OUT)/replay-$(f) $(call FUZZ_CORPUS,$(f)) || { echo "failed: $(f)" >&2; exit 1; };)

-include $(REPLAYS:=.d)
