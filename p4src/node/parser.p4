#ifndef DATACAST_NODE_PARSER_P4
#define DATACAST_NODE_PARSER_P4

// What lies under LOCAL, as far as the node needs it: the header, an interest's own stop, and what follows in pieces.
parser NodeParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    TOP_OF_STACK(datacast, looped)

    // An answer from the store that is not whole yet.
    state looped {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.growing);
        packet.extract(hdr.datacast);
        transition accept;
    }

    state datacast {
        packet.extract(hdr.datacast);
        meta.node.body = hdr.datacast.length;
        transition select(hdr.datacast.version, hdr.datacast.pkt_type, hdr.datacast.length) {
            (VERSION, TYPE_INTEREST, STOP_LEN .. ROUTE_MAX): stop;
            (VERSION, TYPE_DATA, 0 .. PIECES_MAX): body;
            default: accept;
        }
    }

    state stop {
        packet.extract(hdr.stop);
        meta.node.body = hdr.datacast.length - STOP_LEN - 2 * ((bit<16>)hdr.stop.n_ret + (bit<16>)hdr.stop.n_fwd);
        meta.node.left = hdr.stop.n_ret;
        transition select(hdr.stop.n_ret, hdr.stop.n_fwd, meta.node.body[15:15]) {
            (0 .. NODE_SEGMENT, 0 .. NODE_SEGMENT, 0): ret;
            default: accept;
        }
    }

    state ret {
        transition select(meta.node.left) {
            0: fwd_begins;
            default: ret_port;
        }
    }

    state ret_port {
        packet.extract(hdr.ret.next);
        meta.node.left = meta.node.left - 1;
        transition ret;
    }

    state fwd_begins {
        meta.node.left = hdr.stop.n_fwd;
        transition fwd;
    }

    state fwd {
        transition select(meta.node.left) {
            0: body;
            default: fwd_port;
        }
    }

    state fwd_port {
        packet.extract(hdr.fwd.next);
        meta.node.left = meta.node.left - 1;
        transition fwd;
    }

    state body {
        meta.node.left = meta.node.body[15:8];
        transition pieces;
    }

    state pieces {
        transition select(meta.node.left) {
            0: last;
            default: piece;
        }
    }

    state piece {
        packet.extract(hdr.piece.next);
        meta.node.left = meta.node.left - 1;
        transition pieces;
    }

#define HALVES(STATE, TAKE, NAME, BIT, NEXT) \
    state STATE { transition select(meta.node.body[BIT:BIT]) { 1: TAKE; default: NEXT; } } \
    state TAKE { packet.extract(hdr.NAME); transition NEXT; }
    HALVES(last, take128, half128, 7, last64)
    HALVES(last64, take64, half64, 6, last32)
    HALVES(last32, take32, half32, 5, last16)
    HALVES(last16, take16, half16, 4, last8)
    HALVES(last8, take8, half8, 3, last4)
    HALVES(last4, take4, half4, 2, last2)
    HALVES(last2, take2, half2, 1, last1)
    HALVES(last1, take1, half1, 0, whole)

    state whole {
        meta.node.whole = 1;
        transition accept;
    }
}

control NodeDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.front);
        packet.emit(hdr.label);
        packet.emit(hdr.next);
        packet.emit(hdr.growing);
        packet.emit(hdr.datacast);
        packet.emit(hdr.stop);
        packet.emit(hdr.ret);
        packet.emit(hdr.fwd);
        packet.emit(hdr.piece);
        packet.emit(hdr.half128);
        packet.emit(hdr.half64);
        packet.emit(hdr.half32);
        packet.emit(hdr.half16);
        packet.emit(hdr.half8);
        packet.emit(hdr.half4);
        packet.emit(hdr.half2);
        packet.emit(hdr.half1);
    }
}

#endif
