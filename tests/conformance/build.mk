# `make conformance DATAPLANE=dpdk|ovs|bmv2`: the table of tests/conformance against a running switch.
.PHONY: conformance
conformance: build ## the conformance table against DATAPLANE=dpdk|ovs|bmv2 (default: all there are)
	$(if $(DATAPLANE),DATAPLANE=$(DATAPLANE)) $(PY) -m pytest tests/conformance
