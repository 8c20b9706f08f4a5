// All that belongs to v1model (bmv2): ports, the copies its replication engine makes, frames that go around once more,
// and how counters and registers are written. Nothing else in p4src/ knows the architecture but the main files.
#ifndef DATACAST_TARGET_P4
#define DATACAST_TARGET_P4

#include <v1model.p4>

typedef bit<9> port_t;
const bit<32> PORTS = 512;      // ports are 9 bits
const port_t NOWHERE = 511;     // v1model's "drop"
const bit<32> COPY_BY_CLONE = 1; // standard_metadata.instance_type: a clone of a frame as it arrived
const bit<32> COPY_BY_PRE = 5;   // a copy made by the replication engine
const bit<32> SECOND_PASS = 4;   // recirculated

#define COUNTER(LABEL, NAME, SIZE) @name(LABEL) counter(SIZE, CounterType.packets_and_bytes) NAME
#define DIRECT_COUNTER(LABEL, NAME) @name(LABEL) direct_counter(CounterType.packets_and_bytes) NAME
#define REGISTER(LABEL, WIDTH, SIZE, NAME) @name(LABEL) register<bit<WIDTH>>(SIZE) NAME
#define READ(NAME, INDEX, INTO) NAME.read(INTO, (bit<32>)(INDEX))
#define WRITE(NAME, INDEX, VALUE) NAME.write((bit<32>)(INDEX), VALUE)
#define HASH(ALGORITHM, INTO, LIST, SIZE) hash(INTO, HashAlgorithm.ALGORITHM, 32w0, LIST, (bit<32>)SIZE)

#define HASH_32(INTO, LIST) hash(INTO, HashAlgorithm.crc32, 32w0, LIST, 64w0x100000000)
#define HASH_16(INTO, LIST) hash(INTO, HashAlgorithm.crc16, 16w0, LIST, 32w0x10000)
#define RECIRCULATE recirculate_preserving_field_list(1)
#define CLONE_FOR_THE_REST clone_preserving_field_list(CloneType.I2E, (bit<32>)P4_REST_SESSION, 1)
#define LEARN(ADDRESS, PORT) digest<station_t>(1, {ADDRESS, PORT})
// Is bit PORT of 512 set, in two halves? bmv2 shifts by 256 bits at most.
#define HAS_PORT(LOW, HIGH, PORT, INTO) \
    INTO = (((PORT[8:8] == 1 ? HIGH : LOW) >> PORT[7:0]) & 1) == 1 ? 1w1 : 1w0;

// An MPLS stack and the Datacast header carry no checksum of their own.
#define NO_CHECKSUMS(HEADERS, METADATA) \
    control NoChecksumToVerify(inout HEADERS hdr, inout METADATA meta) { apply { } } \
    control NoChecksumToCompute(inout HEADERS hdr, inout METADATA meta) { apply { } }

#include "../shared/headers.p4"

// What the architecture tells of a frame.
control Arrived(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        meta.again = standard_metadata.instance_type == SECOND_PASS ? 1w1 : 1w0;
        if (meta.again == 0) {
            meta.in_port = standard_metadata.ingress_port;
            meta.now = standard_metadata.ingress_global_timestamp;
            meta.inner = 0;
#ifdef DATACAST_NODE
            meta.past = 0;
#endif
        }
        meta.malformed = standard_metadata.parser_error == error.NoError ? 1w0 : 1w1;
        meta.bytes = standard_metadata.packet_length;
        meta.out_port = NOWHERE;
        meta.copies = 0;
        meta.group = 0;
    }
}

// What it is to do with it.
control Leaves(in metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (meta.reason != 0 || (meta.group == 0 && meta.out_port == NOWHERE)) {
            mark_to_drop(standard_metadata);
        } else if (meta.group != 0) {
            standard_metadata.mcast_grp = meta.group;
        } else {
            standard_metadata.egress_spec = meta.out_port;
        }
    }
}

// A copy by the replication engine: which one of them, and is it wanted?
control Copied(inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        meta.out_port = standard_metadata.egress_port;
        if (standard_metadata.instance_type == COPY_BY_PRE) {
            meta.copy = (bit<8>)(standard_metadata.egress_rid - 1);
            if (((meta.copies >> meta.copy) & 1) == 0 || meta.out_port == meta.in_port) {
                mark_to_drop(standard_metadata);
                meta.out_port = NOWHERE;
            }
        }
    }
}

#endif
