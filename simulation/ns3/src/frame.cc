#include "frame.h"

#include "ns3/header.h"
#include "ns3/tag.h"

#include <algorithm>
#include <cstring>

namespace datacast {

namespace {

Frame *freeList = nullptr;

// The frame beside the packet (framing `paper`).
class FrameTag : public ns3::Tag {
public:
  const uint8_t *from = nullptr;
  uint32_t real = 0, len = 0;
  Frame *into = nullptr;

  static ns3::TypeId GetTypeId()
  {
    static ns3::TypeId tid = ns3::TypeId("datacast::FrameTag").SetParent<ns3::Tag>().AddConstructor<FrameTag>();
    return tid;
  }
  ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return 8 + real; }
  void Serialize(ns3::TagBuffer b) const override
  {
    b.WriteU32(len);
    b.WriteU32(real);
    b.Write(from, real);
  }
  void Deserialize(ns3::TagBuffer b) override
  {
    len = b.ReadU32();
    real = b.ReadU32();
    if (into != nullptr)
      b.Read(into->byte, real);
  }
  void Print(std::ostream &os) const override { os << "frame of " << len << " bytes"; }
};

// The frame's stored bytes as a header (framing `ethernet`).
class FrontHeader : public ns3::Header {
public:
  const uint8_t *from = nullptr;
  uint32_t n = 0;

  static ns3::TypeId GetTypeId()
  {
    static ns3::TypeId tid =
        ns3::TypeId("datacast::FrontHeader").SetParent<ns3::Header>().AddConstructor<FrontHeader>();
    return tid;
  }
  ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return n; }
  void Serialize(ns3::Buffer::Iterator i) const override { i.Write(from, n); }
  uint32_t Deserialize(ns3::Buffer::Iterator) override { return n; }
  void Print(std::ostream &os) const override { os << n << " bytes"; }
};

void Take(dc_buf *b) { Frame::Of(b)->refs++; }
void Give(dc_buf *b) { Frame::Of(b)->Unref(); }

} // namespace

const dc_buf_ops frameOps = {Take, Give};

Frame *Frame::New()
{
  Frame *f = freeList;
  if (f != nullptr)
    freeList = f->next;
  else
    f = new Frame;
  f->refs = 1;
  return f;
}

void Frame::Unref()
{
  if (--refs > 0)
    return;
  next = freeList;
  freeList = this;
}

// The Datacast header under Ethernet and labels: where it begins, 0 when there is none.
static uint32_t HeaderOf(const uint8_t *p, uint32_t real, uint32_t len, dc_header *h)
{
  if (real < DC_ETHER_LEN)
    return 0;
  uint32_t at = DC_ETHER_LEN;
  bool bottom = (p[12] << 8 | p[13]) != DC_ETHERTYPE_MPLS;
  while (!bottom) {
    if (at + DC_LABEL_LEN > real)
      return 0;
    dc_label_read(p + at, &bottom);
    at += DC_LABEL_LEN;
  }
  return at + DC_HEADER_LEN > real || dc_header_parse(p + at, len - at, h) != DC_DROP_NONE ? 0 : at;
}

int PayloadOf(const uint8_t *p, uint32_t real, uint32_t len)
{
  dc_header h;
  return HeaderOf(p, real, len, &h) == 0 || h.type != DC_TYPE_DATA ? -1 : h.length;
}

ns3::Ptr<ns3::Packet> Pack(Framing framing, const uint8_t *p, uint32_t real, uint32_t len)
{
  if (framing == Framing::PAPER) {
    int payload = PayloadOf(p, real, len);
    ns3::Ptr<ns3::Packet> packet =
        ns3::Create<ns3::Packet>(DC_HEADER_LEN - PPP_BYTES + static_cast<uint32_t>(std::max(0, payload)));
    FrameTag tag;
    tag.from = p;
    tag.real = real;
    tag.len = len;
    packet->AddPacketTag(tag);
    return packet;
  }
  ns3::Ptr<ns3::Packet> packet = ns3::Create<ns3::Packet>(len - real);
  FrontHeader front;
  front.from = p + PPP_BYTES;
  front.n = real - PPP_BYTES;
  packet->AddHeader(front);
  return packet;
}

Frame *Unpack(Framing framing, const ns3::Ptr<const ns3::Packet> &packet, bool ppp)
{
  Frame *f = Frame::New();
  if (framing == Framing::PAPER) {
    FrameTag tag;
    tag.into = f;
    if (packet->PeekPacketTag(tag)) {
      f->real = tag.real;
      f->len = tag.len;
      return f;
    }
    f->Unref();
    return nullptr;
  }
  uint32_t gone = ppp ? 0 : PPP_BYTES;
  f->len = packet->GetSize() + gone;
  f->real = gone + packet->CopyData(f->byte + gone, FRONT_MAX - gone);
  std::memset(f->byte, 0, PPP_BYTES);
  dc_header h;
  if (uint32_t at = HeaderOf(f->byte, f->real, f->len, &h)) // leave the payload's zeros where they are
    f->real = std::min(f->real,
                       at + DC_HEADER_LEN + (h.type == DC_TYPE_DATA ? std::min<uint32_t>(h.length, STAMP) : h.length));
  return f;
}

uint64_t Content(uint32_t group, uint64_t piece)
{
  uint64_t x = (piece + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t{group} + 1) * UINT64_C(0xbf58476d1ce4e5b9);
  x ^= x >> 30;
  x *= UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

} // namespace datacast
