// Why a frame was refused; also the index of its counter. The numbers are those of `enum dc_drop` in
// libdatacast/include/datacast/wire.h (tests/p4 compares the two), so all data planes report alike.
#ifndef DATACAST_REASONS_P4
#define DATACAST_REASONS_P4

const bit<8> REASON_NONE = 0;
const bit<8> REASON_TRUNCATED = 1;   // shorter than its headers say
const bit<8> REASON_VERSION = 2;
const bit<8> REASON_TYPE = 3;
const bit<8> REASON_RESERVED = 4;
const bit<8> REASON_ETHERTYPE = 5;   // not Datacast's, and this port takes no part in bridging
const bit<8> REASON_LABEL = 6;       // unknown top label, or one below that no switch forwards to
const bit<8> REASON_PORT = 7;        // no such port here
const bit<8> REASON_STACK = 8;       // LOCAL with labels below it, or no label where one must follow
const bit<8> REASON_ROUTE = 9;
const bit<8> REASON_NO_ENDPOINT = 10; // an empty stack, or LOCAL without an appliance: nobody here takes it
const bit<8> REASON_UNKNOWN_TREE = 11;
const bit<8> REASON_UNWANTED = 12;   // data nobody waits for, or from elsewhere than it was asked for
const bit<8> REASON_TREES = 13;
const bit<8> REASON_CHILDREN = 14;
const bit<8> REASON_WAITING = 15;
const bit<8> REASON_OVERSIZED = 18;
const bit<8> REASON_RANGE = 19;
const bit<8> REASON_UTURN = 20;


const bit<32> REASONS = 32; // size of the counter

#endif
