# The lab's delay line: build/datacast-delay.

LAB_DELAY := $(BUILD)/datacast-delay
BINARIES += $(LAB_DELAY)

$(LAB_DELAY): lab/delay.c lab/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) -D_GNU_SOURCE $< -o $@ $(LDFLAGS)
