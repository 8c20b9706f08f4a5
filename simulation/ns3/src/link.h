// One direction of a cable: ns-3's point-to-point device at its sending end, its queue, and what passed.
#ifndef DATACAST_NS3_LINK_H
#define DATACAST_NS3_LINK_H

#include "frame.h"

#include "ns3/error-model.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/queue.h"
#include "ns3/random-variable-stream.h"

namespace datacast
{

// Loses data packets and interests at random, each with its own probability; leaves other traffic alone.
class Loss : public ns3::ErrorModel
{
public:
  static ns3::TypeId GetTypeId();
  double data = 0, interest = 0;
  Framing framing = Framing::PAPER;
  bool ppp = false; // where it stands, packets have their PPP header
  uint64_t lost = 0;

private:
  bool DoCorrupt(ns3::Ptr<ns3::Packet> packet) override;
  void DoReset() override {}
  ns3::Ptr<ns3::UniformRandomVariable> m_random = ns3::CreateObject<ns3::UniformRandomVariable>();
};

// A cable whose frames come later by up to so many nanoseconds, each by chance, in order: hosts are no clocks.
class LateChannel : public ns3::PointToPointChannel
{
public:
  static ns3::TypeId GetTypeId();
  int64_t late[2] = {0, 0}; // by direction
  bool TransmitStart(ns3::Ptr<const ns3::Packet> packet, ns3::Ptr<ns3::PointToPointNetDevice> from,
                     ns3::Time wire) override;

private:
  ns3::Time m_last[2];
  ns3::Ptr<ns3::UniformRandomVariable> m_random = ns3::CreateObject<ns3::UniformRandomVariable>();
};

struct Link {
  uint32_t from, to;
  ns3::Ptr<ns3::PointToPointNetDevice> device, far; // the sending end, the receiving one
  ns3::Ptr<ns3::Queue<ns3::Packet>> queue;
  ns3::Ptr<Loss> loss;
  ns3::Ptr<LateChannel> channel;
  bool early = false;             // what is lost is lost before it takes the link's time
  uint64_t frames = 0, bytes = 0; // as ns-3's own trace of the physical layer says, PPP header included
  uint64_t data = 0, dataBytes = 0, payload = 0, dropped = 0;
  uint32_t queueMax = 0;

  void Begun(ns3::Ptr<const ns3::Packet> packet)
  {
    frames++;
    bytes += packet->GetSize();
  }
  // `payload` < 0: an interest.
  void Send(const ns3::Ptr<ns3::Packet> &packet, int payload);
};

} // namespace datacast

#endif
