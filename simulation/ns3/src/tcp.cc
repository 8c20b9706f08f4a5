#include "tcp.h"

#include "ns3/bulk-send-application.h"
#include "ns3/config.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/ipv4.h"
#include "ns3/packet-sink.h"
#include "ns3/string.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/uinteger.h"

namespace datacast {

namespace {

constexpr uint32_t TCP_HEADERS = 20 + 32; // IPv4, TCP with timestamps
constexpr uint16_t FIRST_PORT = 5001;

// Both directions of cable k have the addresses 10.x.y.z/30 with 4k + 1 at the end of link 2k, 4k + 2 at that of 2k
// + 1.
ns3::Ipv4Address AddressOf(uint32_t link) { return ns3::Ipv4Address((10u << 24) + 4 * (link / 2) + 1 + link % 2); }

void EnsureStack(const ns3::Ptr<ns3::Node> &node)
{
  if (node->GetObject<ns3::Ipv4>() != nullptr)
    return;
  ns3::InternetStackHelper stack;
  ns3::Ipv4StaticRoutingHelper routing;
  stack.SetRoutingHelper(routing);
  stack.SetIpv6StackInstall(false);
  stack.Install(node);
}

// The interface of the device that sends over `link`.
uint32_t EnsureInterface(const ns3::Ptr<ns3::Node> &node, const Link &l, uint32_t link)
{
  EnsureStack(node);
  ns3::Ptr<ns3::Ipv4> ip = node->GetObject<ns3::Ipv4>();
  int32_t known = ip->GetInterfaceForDevice(l.device);
  if (known >= 0)
    return static_cast<uint32_t>(known);
  uint32_t i = ip->AddInterface(l.device);
  ip->AddAddress(i, ns3::Ipv4InterfaceAddress(AddressOf(link), ns3::Ipv4Mask("255.255.255.252")));
  ip->SetUp(i);
  return i;
}

void Defaults(const std::string &flavour, uint32_t payload)
{
  using ns3::Config::SetDefault;
  SetDefault("ns3::TcpL4Protocol::SocketType", ns3::StringValue(flavour == "cubic" ? "ns3::TcpCubic"
                                                                : flavour == "bbr" ? "ns3::TcpBbr"
                                                                                   : "ns3::TcpNewReno"));
  SetDefault("ns3::TcpSocket::SegmentSize", ns3::UintegerValue(payload));
  // ns-3's 128 KB would be less than the queue and the pipe hold.
  SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(1 << 20));
  SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(1 << 20));
  SetDefault("ns3::TcpSocketBase::MinRto", ns3::TimeValue(ns3::MilliSeconds(200)));
}

} // namespace

uint64_t TcpFlow::Bytes() const { return ns3::DynamicCast<ns3::PacketSink>(sink)->GetTotalRx() / payload * segment; }

std::string Tcp::Add(const std::string &flavour, uint64_t start, uint64_t stop, uint32_t segment,
                     const std::vector<uint32_t> &path)
{
  if (flavour != "cubic" && flavour != "newreno" && flavour != "bbr")
    return "TCP is newreno, cubic or bbr";
  if (path.empty() || segment <= PPP_BYTES + TCP_HEADERS || segment > 1500 + PPP_BYTES)
    return "a TCP connection needs a path and segments of 55 to 1502 bytes";
  if (!m_flows.empty() && (flavour != m_flavour || segment != m_segment))
    return "all TCP connections of a scenario have the same flavour and segment";
  m_flavour = flavour;
  m_segment = segment;
  uint32_t payload = segment - PPP_BYTES - TCP_HEADERS;
  Defaults(flavour, payload);

  for (uint32_t l : path) {
    EnsureInterface(m_nodes[m_links[l]->from]->Get(), *m_links[l], l);
    EnsureInterface(m_nodes[m_links[l]->to]->Get(), *m_links[l ^ 1], l ^ 1);
  }
  ns3::Ipv4Address from = AddressOf(path.front()), to = AddressOf(path.back() ^ 1);
  ns3::Ipv4StaticRoutingHelper routing;
  for (uint32_t l : path) {
    ns3::Ptr<ns3::Ipv4> near = m_nodes[m_links[l]->from]->Get()->GetObject<ns3::Ipv4>();
    ns3::Ptr<ns3::Ipv4> far = m_nodes[m_links[l]->to]->Get()->GetObject<ns3::Ipv4>();
    auto there = static_cast<uint32_t>(near->GetInterfaceForDevice(m_links[l]->device));
    auto back = static_cast<uint32_t>(far->GetInterfaceForDevice(m_links[l ^ 1]->device));
    routing.GetStaticRouting(near)->AddHostRouteTo(to, AddressOf(l ^ 1), there);
    routing.GetStaticRouting(far)->AddHostRouteTo(from, AddressOf(l), back);
  }

  auto port = static_cast<uint16_t>(FIRST_PORT + m_flows.size());
  ns3::Ptr<ns3::PacketSink> sink = ns3::CreateObject<ns3::PacketSink>();
  sink->SetAttribute("Protocol", ns3::TypeIdValue(ns3::TcpSocketFactory::GetTypeId()));
  sink->SetAttribute("Local", ns3::AddressValue(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port)));
  m_nodes[m_links[path.back()]->to]->Get()->AddApplication(sink);

  ns3::Ptr<ns3::BulkSendApplication> sender = ns3::CreateObject<ns3::BulkSendApplication>();
  sender->SetAttribute("Protocol", ns3::TypeIdValue(ns3::TcpSocketFactory::GetTypeId()));
  sender->SetAttribute("Remote", ns3::AddressValue(ns3::InetSocketAddress(to, port)));
  sender->SetAttribute("SendSize", ns3::UintegerValue(payload));
  sender->SetStartTime(ns3::NanoSeconds(start));
  sender->SetStopTime(ns3::NanoSeconds(stop));
  m_nodes[m_links[path.front()]->from]->Get()->AddApplication(sender);
  m_flows.push_back({sink, segment, payload});
  return "";
}

} // namespace datacast
