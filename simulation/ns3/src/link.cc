#include "link.h"

#include <algorithm>

namespace datacast {

NS_OBJECT_ENSURE_REGISTERED(Loss);

ns3::TypeId Loss::GetTypeId()
{
  static ns3::TypeId tid = ns3::TypeId("datacast::Loss").SetParent<ns3::ErrorModel>().AddConstructor<Loss>();
  return tid;
}

bool Loss::DoCorrupt(ns3::Ptr<ns3::Packet> packet)
{
  Frame *f = Unpack(framing, packet, ppp);
  if (f == nullptr)
    return false;
  double p = PayloadOf(f->byte, f->real, f->len) >= 0 ? data : interest;
  f->Unref();
  if (p <= 0 || m_random->GetValue() >= p)
    return false;
  lost++;
  return true;
}

void Link::Send(const ns3::Ptr<ns3::Packet> &packet, int size)
{
  uint32_t wire = packet->GetSize() + PPP_BYTES;
  if (early && loss->IsCorrupt(packet))
    return;
  if (!device->Send(packet, device->GetBroadcast(), PROTOCOL)) {
    dropped++;
    return;
  }
  if (size >= 0) {
    data++;
    dataBytes += wire;
    payload += static_cast<uint64_t>(size);
  }
  queueMax = std::max(queueMax, queue->GetNPackets() + 1);
}

} // namespace datacast
