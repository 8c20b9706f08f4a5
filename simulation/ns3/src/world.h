// The network and the groups of one scenario.
#ifndef DATACAST_NS3_WORLD_H
#define DATACAST_NS3_WORLD_H

#include "receiver.h"
#include "source.h"
#include "tcp.h"

#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace datacast
{

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the command line changes in a scenario.
struct Changes {
  std::optional<std::string> cc;
  std::optional<uint64_t> cache, delta, interval, credits, size, seed;
  std::optional<double> loss;
};

struct Tree {
  uint32_t group, id;
  uint64_t delta, interval;
  uint32_t credits;
  std::string cc;
  uint32_t linksUsed = 0; // of the tree's routes
  ns3::Ptr<SourceModel> source;
};

struct Group {
  uint32_t source;
  dc_layout layout;
  uint64_t cacheBytes, start, stop;
  std::vector<ns3::Ptr<ReceiverModel>> receivers;
  std::vector<uint32_t> trees;
};

class World
{
public:
  explicit World(const Changes &changes);
  ~World();

  // One line of a scenario (see the README); false for one that is no part of the world, such as `run`. Throws Error.
  bool Line(const std::string &line);
  // Until `until` (ns), or until all groups without a stop are whole. Returns the time reached.
  uint64_t Run(uint64_t until, bool whole);

  // All counters as one line of JSON, in the order in which the scenario names things.
  void Report(std::ostream &out) const;
  // One row per group, as the experiments have them.
  void Rows(std::ostream &out) const;

private:
  class Words;
  void Vertex(Words &w);
  void Cable(Words &w);
  void LossLine(Words &w);
  void GroupLine(Words &w);
  void TreeLine(Words &w);
  void RouteLine(Words &w);
  void ExtentLine(Words &w);
  void LimitLine(Words &w);
  void TcpLine(Words &w);
  void Arcs(uint32_t tree, const std::vector<uint8_t> &blob, uint32_t receiver);
  void Assign(uint32_t tree, const dc_extent &e);
  void Prepare();
  void SetSeed(uint64_t seed);
  void Completed();
  uint64_t Payload() const;

  Changes m_changes;
  Framing m_framing = Framing::ETHERNET;
  bool m_ready = false, m_whole = false;
  uint32_t m_unfinished = 0;
  struct {
    uint32_t cache = 128 * 1024, trees = 1, store = 256, waiting = 256;
  } m_room; // of every node
  std::vector<std::unique_ptr<NodeModel>> m_owned;
  std::vector<std::unique_ptr<Link>> m_ownedLinks;
  std::vector<NodeModel *> m_nodes;
  std::vector<Link *> m_links;
  std::vector<Tree> m_trees;
  std::vector<Group> m_groups;
  std::vector<std::vector<bool>> m_used; // per tree: links its data takes
  Tcp m_tcp{m_links, m_nodes};
};

} // namespace datacast

#endif
