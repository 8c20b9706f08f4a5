// libdatacast's node on an ns-3 node: frames from the devices go through dc_node_handle, what comes out goes to devices
// or to this host's endpoints.
#ifndef DATACAST_NS3_NODE_H
#define DATACAST_NS3_NODE_H

#include "link.h"

#include "ns3/net-device.h"
#include "ns3/node.h"

#include <unordered_map>
#include <vector>

namespace datacast
{

// What the node hands up: a packet from the Datacast header on.
class Endpoint
{
public:
  virtual ~Endpoint() = default;
  virtual void Interest(const uint8_t *, uint32_t) {}                          // at the source of this tree
  virtual void Data(uint32_t, const dc_header &, const uint8_t *, uint32_t) {} // payload, bytes of it that are stored
};

class NodeModel
{
public:
  NodeModel(Framing framing, bool host);
  ~NodeModel();
  NodeModel(const NodeModel &) = delete;
  NodeModel &operator=(const NodeModel &) = delete;

  ns3::Ptr<ns3::Node> Get() const { return m_node; }
  const dc_node *Core() const { return m_core; }
  bool IsHost() const { return m_host; }
  void AddPort(uint16_t port, Link *out);
  Link *Port(uint16_t port) const { return port < m_out.size() ? m_out[port] : nullptr; }
  // Makes the core's node. `cfg` as simulation/src/vertex.c makes it; ports and endpoint are filled in here.
  void Prepare(dc_node_cfg cfg);
  void AddSource(uint32_t tree, Endpoint *e) { m_sources[tree] = e; }
  void AddReceiver(uint32_t tree, Endpoint *e) { m_receivers[tree] = e; }

  // An endpoint's frame: out of the segment's first port, or to this host's own node.
  void Send(const dc_segment &segment, const uint8_t *p, uint32_t real, uint32_t len);
  // What stays on this host happens in this same moment, after what the node sent out. Call after Send from a timer.
  void Drain();

private:
  struct Local {
    Frame *frame;
    bool up; // towards the endpoints; else towards the node
  };
  void Receive(ns3::Ptr<ns3::NetDevice> device, ns3::Ptr<const ns3::Packet> packet, uint16_t, const ns3::Address &,
               const ns3::Address &, ns3::NetDevice::PacketType);
  void Handle(Frame *f, uint16_t port);
  void Deliver(const Frame &f);

  ns3::Ptr<ns3::Node> m_node;
  Framing m_framing;
  bool m_host;
  std::vector<Link *> m_out;      // by port
  std::vector<uint16_t> m_portOf; // by the device's index on the node
  void *m_memory = nullptr;
  dc_node *m_core = nullptr;
  std::unordered_map<uint32_t, Endpoint *> m_sources, m_receivers;
  std::vector<Local> m_local;
};

} // namespace datacast

#endif
