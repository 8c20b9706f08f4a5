// Sizes of what a switch keeps, in one place.
#ifndef DATACAST_SIZES_P4
#define DATACAST_SIZES_P4

const bit<16> ETHERTYPE_LLDP = 0x88cc; // IEEE 802.1AB

// ---- the node (node.p4) ----
#define NODE_SEGMENT 8        // P4_SEGMENT_MAX, where a header stack needs a literal
#define NODE_SETS 16          // trees stand in sets of 8
#define NODE_TREES 128
#define NODE_CHILDREN 32      // P4_CHILDREN_MAX, likewise
#define NODE_WAITING 512      // waiting interests of one tree, in sets of 4 as in the core
#define NODE_WAITING_SETS 128
#define NODE_PACKETS 512      // packets in one tree's store
#define NODE_CHUNKS 1024      // pieces of 256 bytes in one tree's store
#define NODE_PIECES 35        // of one packet, and a last one that is shorter
const bit<16> PIECES_MAX = 9215; // so many bytes are read as pieces; longer data is passed on and not stored
const bit<32> STORE_BYTES = 131072; // a tree's store at most
const bit<8> STORE_CODE = 0x50; // the same as interests say it

// Those of the core (libdatacast/include/datacast/limits.h; tests/p4 compares).
const bit<16> ROUTE_MAX = 1024;
const bit<8> STOPS_MAX = 64;
const bit<16> PAYLOAD_MAX = 65000;
const bit<16> GROWING_LEN = 38; // of growing_t
const bit<32> FRONT_LEN = 34; // Ethernet, one label, the header

// Times in microseconds.
const bit<48> TREE_IDLE = 10000000;  // a tree that data came for and that is unused for so long gives its place to another
const bit<48> CHILD_STALE = 1000000; // a child not heard of for so long does the same in a full table
const bit<8> BATCH_MAX = 8; // numbers that receivers ask for at once: DC_BATCH_MAX
const bit<48> WAITING_LIFE_MIN = 100000;

#endif
