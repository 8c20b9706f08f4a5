# `make conformance DATAPLANE=dpdk|memif|ovs|bmv2|p4|swx`: the table of tests/conformance against a running switch.
.PHONY: conformance
conformance: build ## the conformance table against DATAPLANE=dpdk|memif|ovs|bmv2|p4|swx (default: all there are)
	$(if $(DATAPLANE),DATAPLANE=$(DATAPLANE)) $(PY) -m pytest tests/conformance

.PHONY: test-bmv2
test-bmv2: p4 build ## all of bmv2, also what takes minutes: whole labs under faults (needs p4lang's p4c and bmv2)
	@DATACAST_BMV2=1 DATAPLANE=bmv2 nice -n 5 $(PY) -m pytest -v --reruns 1 tests/p4 tests/conformance

.PHONY: fuzz-p4 same-p4
fuzz-p4: p4 build ## made-up frames into the node in P4 on bmv2, TIME seconds: TIME=600 SEED=1
	@FUZZ_S=$(TIME) SEED=$(or $(SEED),1) $(PY) -m pytest -q -s tests/conformance/test_p4_fuzz.py

same-p4: p4 build ## a thousand seeded sequences into the core's node and the one in P4: SEQUENCES=1000 SEED=1
	@SEQUENCES=$(or $(SEQUENCES),1000) SEED=$(or $(SEED),1) $(PY) -m pytest -q tests/conformance/test_same_as_the_core.py

# Between a switch's ports in shared memory and the interfaces that the table's frames come from.
MEMIF_WIRES := $(BUILD)/memif-wires
$(MEMIF_WIRES): tests/conformance/memif_wires.c $(DATAPATH_LIB) $(CORE_LIB)
	$(CC) $(CFLAGS_BASE) -D_GNU_SOURCE -I. $^ $(DATAPATH_LIBS) -o $@
