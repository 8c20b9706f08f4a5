// What the node looks at under the stack, and what it finds out about a frame.
#ifndef DATACAST_NODE_HEADERS_P4
#define DATACAST_NODE_HEADERS_P4

header stop_t {
    bit<8> flags;
    bit<8> n_ret;
    bit<8> n_fwd;
    bit<8> reserved;
}

header segment_port_t {
    bit<16> port;
}

// In front of an answer that is still without its first pieces.
header growing_t {
    bit<8>   left;   // pieces
    bit<8>   tree;
    bit<16>  epoch;
    bit<32>  first;  // piece of it in the ring
    bit<128> ports;  // the segment over which it leaves
    bit<8>   n;
    bit<8>   local;
    bit<96>  room;   // for the labels that take its place: the last pass grows by no more than the two pieces
}

header piece_t   { bit<2048> bytes; }
header half128_t { bit<1024> bytes; }
header half64_t  { bit<512> bytes; }
header half32_t  { bit<256> bytes; }
header half16_t  { bit<128> bytes; }
header half8_t   { bit<64> bytes; }
header half4_t   { bit<32> bytes; }
header half2_t   { bit<16> bytes; }
header half1_t   { bit<8> bytes; }

// Ports of a segment, the first one on top; further ones are 0.
struct segment_t {
    bit<128> ports;
    bit<8>   n;
    bit<1>   local; // it ends at a waypoint
}

struct node_t {
    bit<256> ports_low;  // those this switch has, a bit each
    bit<256> ports_high;
    bit<48> retx_min; // a RETX is sent on again when the last sending is at least so old, in microseconds
    bit<32> capacity; // bytes of a tree's store where the interest does not ask for a size
    bit<8>  left;     // of the parser: ports or pieces still to come
    bit<16> body;     // bytes after the header and this node's own stop
    bit<1>  whole;    // the body was read as pieces

    bit<1>  sends;    // a frame of the node's own leaves
    segment_t way;    // over which it does
    bit<7>  tree;     // place of the tree
    bit<16> epoch;    // of that place: what an earlier tree left there has another
    bit<8>  child;
}

#endif
