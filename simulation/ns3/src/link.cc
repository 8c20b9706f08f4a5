#include "link.h"

#include "ns3/simulator.h"

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

NS_OBJECT_ENSURE_REGISTERED(LateChannel);

ns3::TypeId LateChannel::GetTypeId()
{
  static ns3::TypeId tid =
      ns3::TypeId("datacast::LateChannel").SetParent<ns3::PointToPointChannel>().AddConstructor<LateChannel>();
  return tid;
}

bool LateChannel::TransmitStart(ns3::Ptr<const ns3::Packet> packet, ns3::Ptr<ns3::PointToPointNetDevice> from,
                                ns3::Time wire)
{
  uint32_t way = from == GetSource(0) ? 0 : 1;
  if (late[way] == 0)
    return ns3::PointToPointChannel::TransmitStart(packet, from, wire);
  int64_t by = static_cast<int64_t>(m_random->GetValue(0, static_cast<double>(late[way] + 1)));
  m_last[way] = std::max(m_last[way], ns3::Simulator::Now() + wire + GetDelay() + ns3::NanoSeconds(by));
  ns3::Ptr<ns3::PointToPointNetDevice> to = GetDestination(way);
  ns3::Simulator::ScheduleWithContext(to->GetNode()->GetId(), m_last[way] - ns3::Simulator::Now(),
                                      &ns3::PointToPointNetDevice::Receive, to, packet->Copy());
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
