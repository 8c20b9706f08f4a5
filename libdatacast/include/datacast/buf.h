/* Packet storage behind two functions, so that mbufs, plain buffers and simulated packets all fit. */
#ifndef DATACAST_BUF_H
#define DATACAST_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "datacast/bytes.h"
#include "datacast/constants.h"
#include "datacast/limits.h"

typedef struct dc_buf dc_buf; /* the caller's; the core never looks inside */

struct dc_buf_ops {
  void (*ref)(dc_buf *buf);   /* one more owner; the bytes must not change from now on */
  void (*unref)(dc_buf *buf); /* one owner less */
};

/* A frame that arrived. `data` is contiguous and starts at the Ethernet header. Of that nothing but the EtherType is looked at, which
 * may stand here instead: then the header's bytes are there, and whose they are and what they hold is nobody's concern. */
struct dc_frame {
  dc_buf *buf;
  const uint8_t *data;
  uint32_t len;
  uint16_t port; /* where it came in, or DC_PORT_HOST from an endpoint of this host (then no Ethernet: at the header) */
  uint16_t ethertype; /* 0: as it stands in `data` */
};

/* Of a frame of DC_ETHER_LEN bytes and more. */
static inline uint16_t dc_frame_ethertype(const struct dc_frame *f)
{
  return f->ethertype != 0 ? f->ethertype : dc_get16(f->data + DC_ETHER_LEN - 2);
}

#define DC_PORT_HOST 0xffffu

/* A frame to send: the prefix, then bytes [off, off+len) of the buffer, counted from dc_frame.data as it was handed in.
 * It holds one reference to buf (when not NULL), which the caller releases when it is sent.
 *
 * port == DC_PORT_HOST: for this host's endpoints, and what goes to them starts at the Datacast header, without
 * Ethernet. prefix_len is 0 when the header is the buffer's own (off stands at it), or DC_HEADER_LEN when the node had
 * to write a new one (an interest whose route became shorter): then prefix is the header and off stands behind the old
 * one's first stop. Read a HOST frame as prefix followed by [off, off+len). `from` is the port that it came by past the
 * node, or DC_PORT_HOST when the node answers what the endpoints asked it. */
struct dc_tx {
  dc_buf *buf;
  uint32_t off, len;
  uint16_t port, from;
  uint16_t prefix_len;
  uint8_t prefix[DC_PREFIX_MAX];
};

#endif
