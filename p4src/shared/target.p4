// What belongs to the target (v1model) and not to Datacast.
#ifndef DATACAST_TARGET_P4
#define DATACAST_TARGET_P4

const bit<9> CPU_PORT = 510;    // simple_switch_grpc -- --cpu-port 510
const bit<32> PORTS = 512;      // ports are 9 bits
const bit<32> COPY_BY_PRE = 5;  // standard_metadata.instance_type of a copy made by the replication engine

#define BELOW_MAX 49 // labels under the one that is popped: DC_SEG_MAX + 1, as in the core

const bit<16> ETHERTYPE_LLDP = 0x88cc;

// Bridging of ordinary Ethernet.
const bit<16> FLOOD_GROUP = 1;        // multicast group: the ports that flood
const bit<32> STATIONS = 1024;        // places for learned addresses, a power of two
const bit<48> STATION_LIFE = 60000000; // microseconds after which an address is unknown again

#endif
