/* The frame on the wire: Ethernet, a stack of MPLS labels (the segment), the Datacast header, the rest.
 *
 * Ethernet (14) | labels (4 each, EtherType 0x8847) | header (16, EtherType 0x88B5 when no label is left) | rest
 * A hello, between the two ends of a link, has EtherType 0x88B6 and no label: what was routed is never taken for one.
 *
 * Header, network byte order:
 *   0      version (high 4 bits) and type (low 4 bits)
 *   1      flags: RETX, DUP, NOCACHE, LAST; the others are zero and checked
 *   2..3   length of what follows: the route's bytes (interest) or the payload's bytes (data)
 *   4..7   tree id
 *   8..11  sequence number
 *   12     interest: number of stops in the route; data: 0
 *   13     interest: lag, how far the slowest below is behind this interest (dc_lag_packets); data: 0
 *   14     interest: cache code, the content store C this tree asks for (0: the node's default); data: 0
 *   15     interest: how many numbers after seq it asks for as well, 0..63; otherwise 0
 * A frame may be longer than its length says (Ethernet pads to 60 bytes); what follows is ignored.
 *
 * The numbers come from the table libdatacast/wire.yaml, which also feeds Python and P4 (constants.h is
 * generated and committed).
 */
#ifndef DATACAST_WIRE_H
#define DATACAST_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datacast/constants.h" /* DC_VERSION, DC_TYPE_*, DC_FLAG_*, DC_LABEL_*, DC_ETHERTYPE_*, DC_HEADER_LEN … */
#include "datacast/limits.h"

struct dc_header {
  uint8_t type; /* DC_TYPE_INTEREST, DC_TYPE_DATA or DC_TYPE_HELLO */
  uint8_t flags;
  uint16_t length; /* bytes after the header */
  uint32_t tree;
  uint32_t seq;
  uint8_t stops; /* interests only */
  uint8_t lag;   /* interests only */
  uint8_t cache; /* interests only */
  uint8_t more;  /* interests only: seq to seq + more are asked for */
};

/* Why a frame was refused; also the index of its counter. */
enum dc_drop {
  DC_DROP_NONE = 0,
  DC_DROP_TRUNCATED,    /* shorter than its headers or its length say */
  DC_DROP_VERSION,      /* another version */
  DC_DROP_TYPE,         /* unknown type */
  DC_DROP_RESERVED,     /* reserved bits or fields set */
  DC_DROP_ETHERTYPE,    /* neither 0x8847 nor 0x88B5 */
  DC_DROP_LABEL,        /* unknown top label */
  DC_DROP_PORT,         /* no such port here */
  DC_DROP_STACK,        /* LOCAL with labels below it, or no bottom within the limit */
  DC_DROP_ROUTE,        /* route malformed, too long or missing */
  DC_DROP_NO_ENDPOINT,  /* for an endpoint, where there is none */
  DC_DROP_UNKNOWN_TREE, /* data nobody waits for, of a tree not known */
  DC_DROP_UNWANTED,     /* data nobody waits for */
  DC_DROP_TREES,        /* the limit on trees is reached */
  DC_DROP_CHILDREN,     /* the limit on children is reached */
  DC_DROP_WAITING,      /* the limit on waiting interests is reached */
  DC_DROP_QUEUE,        /* a source's queue is full */
  DC_DROP_BEYOND,       /* interest beyond what was assigned */
  DC_DROP_OVERSIZED,    /* longer than the MTU */
  DC_DROP_RANGE,        /* an interest for more numbers than one may ask for, or beyond the last one there is */
  DC_DROP_UTURN,        /* would leave by the port it came in by */
  DC_DROP_MAX
};

/* Name of a counter, such as "truncated"; never NULL. */
const char *dc_drop_name(enum dc_drop why);

/* Parse the header at p[0..len). Returns DC_DROP_NONE and fills *h, or the reason. h->length bytes are
 * guaranteed to follow within len. */
enum dc_drop dc_header_parse(const uint8_t *p, size_t len, struct dc_header *h) __attribute__((nonnull));

/* Would it be a data packet's, and with how much payload? For who only counts: a third of the instructions. */
bool dc_is_data(const uint8_t *p, size_t len, uint32_t *payload) __attribute__((nonnull));

/* Write DC_HEADER_LEN bytes. */
void dc_header_write(uint8_t *p, const struct dc_header *h) __attribute__((nonnull));

/* One label. Read returns the 20-bit label, sets *bottom. Write uses TTL 255, traffic class 0. */
uint32_t dc_label_read(const uint8_t *p, bool *bottom) __attribute__((nonnull));
void dc_label_write(uint8_t *p, uint32_t label, bool bottom) __attribute__((nonnull));

/* Ethernet addresses and type (14 bytes). */
void dc_ether_write(uint8_t *p, const uint8_t dst[6], const uint8_t src[6], uint16_t ethertype)
    __attribute__((nonnull));

/* A cache size in one byte: code 0 is "the node's default", else C = (16 + m) * 256 B << e with code = e*16+m.
 * 8 KB, 32 KB, 128 KB, 512 KB and 2,048 KB are exact; others round down by at most 1/17. */
uint8_t dc_cache_code(uint64_t bytes);
uint64_t dc_cache_bytes(uint8_t code);

/* An interest's lag: packets as a code, rounded down; exact below 32, to a 32nd of it above; 8,032 at most. */
uint8_t dc_lag_code(uint32_t packets);
uint32_t dc_lag_packets(uint8_t code);

/* Packets that the path from the source holds, in the flags of data (DC_FLAG_PATH): 0 is 16 and fewer, or not known, then 32
 * to 1,536, each at most a half more than the one before, and 3,072, 6,144 and 9,216. For at least so many. */
uint8_t dc_path_flags(uint32_t packets);
uint32_t dc_path_packets(uint8_t flags);

#endif
