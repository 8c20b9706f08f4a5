# `make conformance DATAPLANE=dpdk|ovs|bmv2`: the table of tests/conformance against a running switch.
.PHONY: conformance
conformance: build ## the conformance table against DATAPLANE=dpdk|ovs|bmv2 (default: all there are)
	$(if $(DATAPLANE),DATAPLANE=$(DATAPLANE)) $(PY) -m pytest tests/conformance

.PHONY: test-bmv2
test-bmv2: p4 build ## all of bmv2, also what takes minutes: whole labs under faults (needs p4lang's p4c and bmv2)
	@DATACAST_BMV2=1 DATAPLANE=bmv2 nice -n 5 $(PY) -m pytest -v --reruns 1 tests/p4 tests/conformance
