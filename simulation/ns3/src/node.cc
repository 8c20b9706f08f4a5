#include "node.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace datacast {

static dc_time Now() { return static_cast<dc_time>(ns3::Simulator::Now().GetNanoSeconds()); }

NodeModel::NodeModel(Framing framing, bool host)
    : m_node(ns3::CreateObject<ns3::Node>()), m_framing(framing), m_host(host)
{
  m_node->RegisterProtocolHandler(ns3::MakeCallback(&NodeModel::Receive, this), PROTOCOL, nullptr);
}

NodeModel::~NodeModel()
{
  if (m_core != nullptr)
    dc_node_clear(m_core);
  std::free(m_memory);
}

void NodeModel::AddPort(uint16_t port, Link *out)
{
  if (port >= m_out.size())
    m_out.resize(port + 1u, nullptr);
  m_out[port] = out;
  uint32_t index = m_node->AddDevice(out->device);
  if (index >= m_portOf.size())
    m_portOf.resize(index + 1u, 0);
  m_portOf[index] = port;
}

void NodeModel::Prepare(dc_node_cfg cfg)
{
  cfg.ports = static_cast<uint16_t>(std::max<size_t>(1, m_out.size()));
  cfg.endpoint = m_host;
  m_memory = std::calloc(1, dc_node_size(&cfg) + 64); // untouched memory costs nothing
  if (m_memory == nullptr)
    throw std::bad_alloc();
  uintptr_t aligned = (reinterpret_cast<uintptr_t>(m_memory) + 63) & ~uintptr_t{63};
  m_core = dc_node_init(reinterpret_cast<void *>(aligned), &cfg, &frameOps);
}

void NodeModel::Receive(ns3::Ptr<ns3::NetDevice> device, ns3::Ptr<const ns3::Packet> packet, uint16_t,
                        const ns3::Address &, const ns3::Address &, ns3::NetDevice::PacketType)
{
  Frame *f = Unpack(m_framing, packet, false);
  if (f == nullptr)
    return;
  Handle(f, m_portOf[device->GetIfIndex()]);
  Drain();
}

void NodeModel::Handle(Frame *f, uint16_t port)
{
  static dc_tx out[DC_NODE_TX_MAX];
  dc_frame in = {f->Buf(), f->byte, f->len, port, 0};
  unsigned n = dc_node_handle(m_core, Now(), &in, out, DC_NODE_TX_MAX);
  for (unsigned i = 0; i < n; i++) {
    const dc_tx &t = out[i];
    Frame *body = Frame::Of(t.buf);
    Frame *whole = Frame::New();
    uint32_t real = body == nullptr || body->real <= t.off ? 0 : std::min(t.len, body->real - t.off);
    real = std::min(real, FRONT_MAX - t.prefix_len);
    std::memcpy(whole->byte, t.prefix, t.prefix_len);
    if (real > 0)
      std::memcpy(whole->byte + t.prefix_len, body->byte + t.off, real);
    whole->real = t.prefix_len + real;
    whole->len = t.prefix_len + t.len;
    if (body != nullptr)
      body->Unref();
    if (t.port == DC_PORT_HOST) {
      m_local.push_back({whole, true});
      continue;
    }
    if (Link *link = Port(t.port))
      link->Send(Pack(m_framing, whole->byte, whole->real, whole->len),
                 PayloadOf(whole->byte, whole->real, whole->len));
    whole->Unref();
  }
}

void NodeModel::Send(const dc_segment &segment, const uint8_t *p, uint32_t real, uint32_t len)
{
  if (segment.n > 0) {
    if (Link *link = Port(segment.port[0]))
      link->Send(Pack(m_framing, p, real, len), PayloadOf(p, real, len));
    return;
  }
  Frame *f = Frame::New();
  std::memcpy(f->byte, p, real);
  f->real = real;
  f->len = len;
  m_local.push_back({f, false});
}

void NodeModel::Drain()
{
  for (size_t i = 0; i < m_local.size(); i++) {
    Local l = m_local[i];
    if (l.up) {
      Deliver(*l.frame);
      l.frame->Unref();
    } else {
      Handle(l.frame, DC_PORT_HOST);
    }
  }
  m_local.clear();
}

void NodeModel::Deliver(const Frame &f)
{
  dc_header h;
  if (dc_header_parse(f.byte, f.len, &h) != DC_DROP_NONE)
    return;
  auto &endpoints = h.type == DC_TYPE_DATA ? m_receivers : m_sources;
  auto e = endpoints.find(h.tree);
  if (e == endpoints.end())
    return;
  if (h.type == DC_TYPE_DATA)
    e->second->Data(h.tree, h, f.byte + DC_HEADER_LEN, f.real - DC_HEADER_LEN);
  else
    e->second->Interest(f.byte, f.len);
}

} // namespace datacast
