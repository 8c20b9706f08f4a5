#ifndef DATACAST_ACCOUNTING_P4
#define DATACAST_ACCOUNTING_P4

// Frames and bytes per port, and frames refused by reason.
control Received(in port_t port) {
    COUNTER("port_rx", received, PORTS);
    apply {
        received.count((bit<32>)port);
    }
}

control Sent(in port_t port) {
    COUNTER("port_tx", sent, PORTS);
    apply {
        sent.count((bit<32>)port);
    }
}

control Refused(in bit<8> reason) {
    COUNTER("drop_reason", refused, REASONS);
    apply {
        refused.count((bit<32>)reason);
    }
}

#endif
