// Headers and metadata. Shared files import nothing; numbers come from include/constants.p4.
#ifndef DATACAST_HEADERS_P4
#define DATACAST_HEADERS_P4

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header mpls_t {
    bit<20> label;
    bit<3>  traffic_class;
    bit<1>  bottom;
    bit<8>  ttl;
}

// What the switch sends to the controller, and the controller to the switch, over P4Runtime's stream.
@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
    mpls_t       label; // the top of the stack, which this switch pops
    mpls_t[BELOW_MAX] below; // the labels under it, read only to see that the stack has a bottom
}

struct metadata_t {
    bit<8> reason; // why the frame is dropped; REASON_NONE: it is not
}

#endif
