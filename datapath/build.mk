# What both daemons share, with I/O: build/libdatacast_datapath.a, plain and under sanitizers.

DATAPATH_DIR := datapath
DATAPATH_OUT := $(BUILD)/datapath
DATAPATH_SRC := $(wildcard $(DATAPATH_DIR)/*.c)
DATAPATH_OBJ := $(patsubst $(DATAPATH_DIR)/%.c,$(DATAPATH_OUT)/plain/%.o,$(DATAPATH_SRC))
DATAPATH_OBJ_ASAN := $(patsubst $(DATAPATH_DIR)/%.c,$(DATAPATH_OUT)/asan/%.o,$(DATAPATH_SRC))
DATAPATH_LIB := $(BUILD)/libdatacast_datapath.a
DATAPATH_LIB_ASAN := $(BUILD)/libdatacast_datapath_asan.a
DATAPATH_CFLAGS := -D_GNU_SOURCE -I.

BINARIES += $(DATAPATH_LIB)

$(DATAPATH_OUT)/plain/%.o: $(DATAPATH_DIR)/%.c $(DATAPATH_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(DATAPATH_CFLAGS) -MMD -MP -c $< -o $@

$(DATAPATH_OUT)/asan/%.o: $(DATAPATH_DIR)/%.c $(DATAPATH_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(DATAPATH_CFLAGS) -MMD -MP -c $< -o $@

$(DATAPATH_LIB): $(DATAPATH_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(DATAPATH_LIB_ASAN): $(DATAPATH_OBJ_ASAN)
	@rm -f $@
	ar rcs $@ $^

-include $(DATAPATH_OBJ:.o=.d) $(DATAPATH_OBJ_ASAN:.o=.d)
