// Headers and metadata. Numbers come from include/constants.p4 and sizes.p4.
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
    @id(1) bit<9> ingress_port;
    @id(2) bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    @id(1) bit<9> egress_port;
    @id(2) bit<7> pad;
}

// An address was seen at a port where it is not known.
struct station_t {
    bit<48> address;
    port_t  port;
}

struct metadata_t {
    bit<8>  reason;     // why the frame is dropped; REASON_NONE: it is not
    bit<1>  malformed;  // ends before its headers do, or has more of them than there can be
    bit<32> bytes;      // of the whole frame
    bit<1>  again;      // it goes around for the second time
    port_t  out_port;
    bit<16> group;      // copies go to this multicast group, those whose bit of `copies` is set
    bit<32> copies;
    bit<8>  copy;       // number of this copy
    bit<1>  routed;     // a label was popped: the addresses are to be those of the next link

    // Kept when a frame goes around once more.
    @field_list(1) port_t  in_port;
    @field_list(1) bit<48> now;   // microseconds
    @field_list(1) bit<1>  inner; // the node itself sends it
#ifdef DATACAST_NODE
    @field_list(1) bit<8>  past;  // numbers of the interest's range that went before this one
    node_t node;
#endif
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
#ifdef DATACAST_NODE
    mpls_t[NODE_SEGMENT] front; // labels of a frame that the node sends
#endif
    mpls_t       label; // the top of the stack, which this switch pops
    mpls_t       next;  // the one under it
#ifdef DATACAST_NODE
    growing_t    growing;
    datacast_t   datacast;
    stop_t       stop;
    segment_port_t[NODE_SEGMENT] ret;
    segment_port_t[NODE_SEGMENT] fwd;
    piece_t[NODE_PIECES] piece; // what follows: 256 bytes each, and the rest in halves
    half128_t    half128;
    half64_t     half64;
    half32_t     half32;
    half16_t     half16;
    half8_t      half8;
    half4_t      half4;
    half2_t      half2;
    half1_t      half1;
#endif
}

#endif
