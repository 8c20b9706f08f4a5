// ns-3's own TCP along given links, for company (the paper's Figure 13b): IPv4 with static routes, no queue disc, so
// that the device's queue is the only one.
#ifndef DATACAST_NS3_TCP_H
#define DATACAST_NS3_TCP_H

#include "node.h"

#include "ns3/application-container.h"

#include <string>
#include <vector>

namespace datacast
{

struct TcpFlow {
  ns3::Ptr<ns3::Application> sink;
  uint32_t segment, payload;

  // Bytes on the wire of the segments that came in order.
  uint64_t Bytes() const;
};

class Tcp
{
public:
  // `links` and `nodes` are those of the network, by number.
  Tcp(std::vector<Link *> &links, std::vector<NodeModel *> &nodes) : m_links(links), m_nodes(nodes) {}

  // Endless data from `start` to `stop` (ns) along a path of links and back the same way; a full segment takes
  // `segment` bytes on the wire. `flavour`: newreno or cubic. Returns what is wrong, or an empty string.
  std::string Add(const std::string &flavour, uint64_t start, uint64_t stop, uint32_t segment,
                  const std::vector<uint32_t> &path);
  const std::vector<TcpFlow> &Flows() const { return m_flows; }

private:
  std::vector<Link *> &m_links;
  std::vector<NodeModel *> &m_nodes;
  std::vector<TcpFlow> m_flows;
  std::string m_flavour;
  uint32_t m_segment = 0;
};

} // namespace datacast

#endif
