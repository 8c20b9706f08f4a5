// A frame of libdatacast on its way through ns-3: how it becomes an ns-3 packet, and what it takes on the wire.
//
// ns-3's point-to-point device puts a PPP header of 2 bytes before each packet and charges the link for them, and knows
// no Ethernet. So that both simulators charge the same bytes, every packet given to it is 2 bytes shorter than our
// frame:
//
// * framing `ethernet`: the packet holds the frame itself but for the first 2 bytes of the destination address, which
// PPP
//   takes the place of (addresses do not route; the receiving side reads them as zero).
// * framing `paper`: the paper counts 16 bytes of header and the payload, less than a frame really has. The packet is
// as long
//   as that, less 2, and the frame's bytes travel beside it in a packet tag, which takes nothing on the wire.
//
// Of a data packet's payload only the first STAMP bytes are stored; the rest are ns-3's virtual zeros.
#ifndef DATACAST_NS3_FRAME_H
#define DATACAST_NS3_FRAME_H

#include "core.h"
#include "ns3/packet.h"

namespace datacast
{

enum class Framing { ETHERNET, PAPER };

constexpr uint32_t STAMP = 8;
constexpr uint32_t PPP_BYTES = 2;
constexpr uint32_t FRONT_MAX = DC_PREFIX_MAX + DC_ROUTE_MAX + STAMP;
// The EtherType under which ns-3 carries our frames. Its PPP header knows IPv4's and IPv6's only; no IPv6 runs here.
constexpr uint16_t PROTOCOL = 0x86DD;

// The core's dc_buf. `real` bytes of `len` are stored.
struct Frame {
  uint32_t refs, len, real;
  Frame *next;
  uint8_t byte[FRONT_MAX];

  static Frame *New();
  void Unref();
  dc_buf *Buf() { return reinterpret_cast<dc_buf *>(this); }
  static Frame *Of(dc_buf *buf) { return reinterpret_cast<Frame *>(buf); }
};

extern const dc_buf_ops frameOps;

// Payload bytes of a data packet; -1 for an interest and for what is no frame of ours. `p` starts at the Ethernet
// header.
int PayloadOf(const uint8_t *p, uint32_t real, uint32_t len);

// A packet for the device, `real` bytes of the frame at p.
ns3::Ptr<ns3::Packet> Pack(Framing framing, const uint8_t *p, uint32_t real, uint32_t len);
// Back again. `ppp`: the packet has its PPP header still. NULL when no frame is in it.
Frame *Unpack(Framing framing, const ns3::Ptr<const ns3::Packet> &packet, bool ppp);

// What piece `piece` of a group holds, in eight bytes.
uint64_t Content(uint32_t group, uint64_t piece);

} // namespace datacast

#endif
