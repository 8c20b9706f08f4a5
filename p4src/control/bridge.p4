#ifndef DATACAST_BRIDGE_P4
#define DATACAST_BRIDGE_P4

// Ordinary Ethernet beside Datacast: learns addresses by itself (registers, so that no rule is needed per host), floods
// what it does not know to the ports of FLOOD_GROUP. The controller keeps the group free of loops and admits its
// ports in `member`. Two addresses that fall on one place displace each other and are then flooded: slower, not wrong.
control Bridge(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name("station_address") register<bit<48>>(STATIONS) address;
    @name("station_port") register<bit<9>>(STATIONS) port;
    @name("station_seen") register<bit<48>>(STATIONS) seen;

    @name("member_counter")
    direct_counter(CounterType.packets_and_bytes) per_member;

    @name("bridge")
    action bridge() {
        per_member.count();
    }

    @name("refuse")
    action refuse() {
        per_member.count();
        meta.reason = REASON_ETHERTYPE;
    }

    @name("member")
    table member {
        key = {
            standard_metadata.ingress_port : exact @name("port");
        }
        actions = {
            bridge;
            @defaultonly refuse;
        }
        const default_action = refuse();
        counters = per_member;
        size = 512;
    }

    apply {
        if (member.apply().hit) {
            bit<32> place;
            if (hdr.ethernet.src[40:40] == 0) { // no group address
                hash(place, HashAlgorithm.crc32, 32w0, { hdr.ethernet.src }, STATIONS);
                address.write(place, hdr.ethernet.src);
                port.write(place, standard_metadata.ingress_port);
                seen.write(place, standard_metadata.ingress_global_timestamp);
            }

            bit<48> known;
            bit<48> last;
            bit<9> out_port;
            hash(place, HashAlgorithm.crc32, 32w0, { hdr.ethernet.dst }, STATIONS);
            address.read(known, place);
            seen.read(last, place);
            port.read(out_port, place);
            bit<48> age = standard_metadata.ingress_global_timestamp - last;
            if (hdr.ethernet.dst[40:40] == 1 || known != hdr.ethernet.dst || age > STATION_LIFE) {
                standard_metadata.mcast_grp = FLOOD_GROUP;
            } else if (out_port == standard_metadata.ingress_port) {
                mark_to_drop(standard_metadata); // its own segment has it already
            } else {
                standard_metadata.egress_spec = out_port;
            }
        }
    }
}

#endif
