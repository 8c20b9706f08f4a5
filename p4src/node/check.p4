#ifndef DATACAST_NODE_CHECK_P4
#define DATACAST_NODE_CHECK_P4

// The header under LOCAL, in the order of the core's dc_header_parse.
control CheckHeader(in headers_t hdr, inout metadata_t meta) {
    apply {
        bit<33> last = (bit<33>)hdr.datacast.seq + (bit<33>)hdr.datacast.more;
        if (!hdr.datacast.isValid()) {
            meta.reason = REASON_TRUNCATED;
        } else if (hdr.datacast.version != VERSION) {
            meta.reason = REASON_VERSION;
        } else if (hdr.datacast.pkt_type < TYPE_INTEREST || hdr.datacast.pkt_type > TYPE_HELLO) {
            meta.reason = REASON_TYPE;
        } else if (((hdr.datacast.flags & (FLAG_MASK ^ 0xff)) != 0 && hdr.datacast.pkt_type != TYPE_DATA)
                   || (hdr.datacast.pkt_type != TYPE_INTEREST && (hdr.datacast.stops | hdr.datacast.lag | hdr.datacast.cache | hdr.datacast.more) != 0)) {
            meta.reason = REASON_RESERVED;
        } else if (hdr.datacast.more > RANGE_MORE_MAX || last[32:32] == 1) {
            meta.reason = REASON_RANGE;
        } else if (hdr.datacast.length > PAYLOAD_MAX) {
            meta.reason = REASON_OVERSIZED;
        } else if ((bit<32>)hdr.datacast.length + FRONT_LEN > meta.bytes) {
            meta.reason = REASON_TRUNCATED;
        } else if (hdr.datacast.pkt_type == TYPE_HELLO) {
            meta.reason = REASON_TYPE; // between neighbours, never for a waypoint
        }
    }
}

#define PORT_OF(LIST, I) (hdr.LIST[I].isValid() ? hdr.LIST[I].port : 16w0)
#define PORTS_OF(LIST) PORT_OF(LIST, 0) ++ PORT_OF(LIST, 1) ++ PORT_OF(LIST, 2) ++ PORT_OF(LIST, 3) \
    ++ PORT_OF(LIST, 4) ++ PORT_OF(LIST, 5) ++ PORT_OF(LIST, 6) ++ PORT_OF(LIST, 7)
#define NO_SEGMENT_PORT(I) hdr.ret[I].setInvalid(); hdr.fwd[I].setInvalid();
// A port that cannot be: all ones, the core's name for the host itself.
#define HAS_HOST(PORTS) (PORTS[127:112] == 0xffff || PORTS[111:96] == 0xffff || PORTS[95:80] == 0xffff \
    || PORTS[79:64] == 0xffff || PORTS[63:48] == 0xffff || PORTS[47:32] == 0xffff || PORTS[31:16] == 0xffff \
    || PORTS[15:0] == 0xffff)

// A segment from here on: does it lead anywhere? The core's way_out.
control WayOut(in segment_t way, in node_t node, inout bit<8> reason) {
    apply {
        bit<1> here = 0;
        bit<16> first = way.ports[127:112];
        HAS_PORT(node.ports_low, node.ports_high, first, here)
        if (way.n == 0) {
            reason = way.local == 1 ? REASON_ROUTE : REASON_NO_ENDPOINT;
        } else if (first[15:9] != 0 || here == 0) {
            reason = REASON_PORT;
        }
    }
}

// This node's own stop of an interest's route, and the two segments in it.
control CheckRoute(in headers_t hdr, inout metadata_t meta, out segment_t ret, out segment_t fwd) {
    WayOut() onward;
    WayOut() back;

    apply {
        ret.ports = PORTS_OF(ret);
        ret.n = hdr.stop.n_ret;
        ret.local = (hdr.stop.flags & STOP_RET_LOCAL) != 0 ? 1w1 : 1w0;
        fwd.ports = PORTS_OF(fwd);
        fwd.n = hdr.stop.n_fwd;
        fwd.local = (hdr.stop.flags & STOP_FWD_LOCAL) != 0 ? 1w1 : 1w0;
        if (hdr.datacast.length > ROUTE_MAX || hdr.datacast.stops < 2 || hdr.datacast.stops > STOPS_MAX) {
            meta.reason = REASON_ROUTE;
        } else if (meta.node.whole == 0 || (hdr.stop.flags & (STOP_MASK ^ 0xff)) != 0 || hdr.stop.reserved != 0
                   || meta.node.body < STOP_LEN * (bit<16>)(hdr.datacast.stops - 1)
                   || (fwd.local == 1) != (hdr.datacast.stops > 2) || HAS_HOST(ret.ports) || HAS_HOST(fwd.ports)) {
            meta.reason = REASON_ROUTE;
        } else {
            onward.apply(fwd, meta.node, meta.reason);
            if (meta.reason == REASON_NONE) {
                back.apply(ret, meta.node, meta.reason);
            }
            if (meta.reason == REASON_NONE
                && (fwd.ports[127:112] == (bit<16>)meta.in_port || fwd.ports[127:112] == ret.ports[127:112])) {
                meta.reason = REASON_UTURN;
            }
        }
    }
}

#endif
