#include "world.h"

#include "ns3/double.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <sstream>

namespace datacast {

// The words of a line, checked.
class World::Words {
public:
  explicit Words(const std::string &line) : m_in(line) {}
  bool More() { return (m_in >> std::ws).good(); }
  std::string Word(const char *what)
  {
    std::string w;
    if (!(m_in >> w))
      throw Error(std::string("missing: ") + what);
    return w;
  }
  uint64_t Number(const char *what, uint64_t most = UINT64_MAX)
  {
    std::string w = Word(what);
    size_t used = 0;
    uint64_t n = 0;
    try {
      n = w[0] == '-' ? 0 : std::stoull(w, &used);
    } catch (const std::exception &) {
    }
    if (used != w.size() || n > most)
      throw Error(std::string(what) + " is a number up to " + std::to_string(most) + ", not '" + w + "'");
    return n;
  }
  // An index of one of `n` things.
  uint32_t Index(const char *what, size_t n)
  {
    if (n == 0)
      throw Error(std::string("there is no ") + what + " yet");
    return static_cast<uint32_t>(Number(what, n - 1));
  }
  uint32_t Small(const char *what, uint32_t most = UINT32_MAX) { return static_cast<uint32_t>(Number(what, most)); }
  void End()
  {
    if (More())
      throw Error("too many words: " + Word("word"));
  }

private:
  std::istringstream m_in;
};

World::World(const Changes &changes) : m_changes(changes) { SetSeed(1); }

World::~World() { ns3::Simulator::Destroy(); }

// ns-3's random variables take the seed when they are made, so this comes before them.
void World::SetSeed(uint64_t seed)
{
  ns3::RngSeedManager::SetSeed(1);
  ns3::RngSeedManager::SetRun(m_changes.seed.value_or(seed));
}

bool World::Line(const std::string &line)
{
  Words w(line);
  if (!w.More())
    return true;
  std::string verb = w.Word("verb");
  if (verb[0] == '#')
    return true;
  if (verb == "run" || verb == "report")
    return false;
  if (m_ready)
    throw Error("the scenario cannot change once it runs");
  if (verb == "seed")
    SetSeed(w.Number("seed"));
  else if (verb == "framing") {
    std::string f = w.Word("framing");
    if (f != "paper" && f != "ethernet")
      throw Error("framing is paper or ethernet");
    m_framing = f == "paper" ? Framing::PAPER : Framing::ETHERNET;
    if (!m_owned.empty())
      throw Error("framing comes before the vertices");
  } else if (verb == "room") {
    m_room.cache = w.Small("cache");
    m_room.trees = w.Small("trees", DC_NODE_TREES_MAX);
    m_room.store = w.Small("store slots", DC_NODE_SLOTS_MAX);
    m_room.waiting = w.Small("waiting slots", DC_NODE_SLOTS_MAX);
  } else if (verb == "vertex")
    Vertex(w);
  else if (verb == "cable")
    Cable(w);
  else if (verb == "loss")
    LossLine(w);
  else if (verb == "late") {
    uint32_t link = w.Index("link", m_links.size());
    m_links[link]->channel->late[link % 2] = static_cast<int64_t>(w.Number("how late", INT32_MAX));
  } else if (verb == "group")
    GroupLine(w);
  else if (verb == "tree")
    TreeLine(w);
  else if (verb == "route")
    RouteLine(w);
  else if (verb == "extent")
    ExtentLine(w);
  else if (verb == "limit")
    LimitLine(w);
  else if (verb == "tcp")
    TcpLine(w);
  else
    throw Error("unknown word '" + verb + "'");
  w.End();
  return true;
}

void World::Vertex(Words &w)
{
  std::string kind = w.Word("kind");
  if (kind != "host" && kind != "switch")
    throw Error("a vertex is a host or a switch");
  m_owned.emplace_back(new NodeModel(m_framing, kind == "host"));
  m_nodes.push_back(m_owned.back().get());
}

void World::Cable(Words &w)
{
  uint32_t end[2];
  uint16_t port[2];
  uint64_t rate[2];
  for (int i = 0; i < 2; i++) {
    end[i] = w.Index("vertex", m_nodes.size());
    port[i] = static_cast<uint16_t>(w.Number("port", DC_NODE_PORTS_MAX - 1));
    if (m_nodes[end[i]]->Port(port[i]) != nullptr)
      throw Error("a port has two cables");
  }
  for (uint64_t &r : rate)
    r = w.Number("rate", UINT64_C(1000000000000));
  uint64_t delay = w.Number("delay", INT64_MAX);
  uint32_t queue = w.Small("queue");
  ns3::Ptr<LateChannel> channel = ns3::CreateObject<LateChannel>();
  channel->SetAttribute("Delay", ns3::TimeValue(ns3::NanoSeconds(delay)));
  for (int i = 0; i < 2; i++) {
    ns3::Ptr<ns3::PointToPointNetDevice> device = ns3::CreateObject<ns3::PointToPointNetDevice>();
    ns3::Ptr<ns3::DropTailQueue<ns3::Packet>> q = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
    q->SetMaxSize(ns3::QueueSize(ns3::QueueSizeUnit::PACKETS, queue));
    device->SetAddress(ns3::Mac48Address::Allocate());
    device->SetDataRate(ns3::DataRate(rate[i]));
    device->SetQueue(q);
    device->Attach(channel);
    m_ownedLinks.emplace_back(new Link{});
    Link *l = m_ownedLinks.back().get();
    l->from = end[i];
    l->to = end[1 - i];
    l->device = device;
    l->queue = q;
    l->channel = channel;
    device->TraceConnectWithoutContext("PhyTxBegin", ns3::MakeCallback(&Link::Begun, l));
    m_links.push_back(l);
    m_nodes[end[i]]->AddPort(port[i], l);
  }
  size_t n = m_links.size();
  m_links[n - 2]->far = m_links[n - 1]->device;
  m_links[n - 1]->far = m_links[n - 2]->device;
}

void World::LossLine(Words &w)
{
  Link *l = m_links[w.Index("link", m_links.size())];
  l->loss = ns3::CreateObject<Loss>();
  l->loss->framing = m_framing;
  l->loss->data = static_cast<double>(w.Number("loss of data", 1000000000)) / 1e9;
  l->loss->interest = static_cast<double>(w.Number("loss of interests", 1000000000)) / 1e9;
  if (m_changes.loss)
    l->loss->data = *m_changes.loss;
  std::string where = w.Word("early or wire");
  if (where != "early" && where != "wire")
    throw Error("loss is early or wire");
  l->early = where == "early";
  l->loss->ppp = !l->early;
  if (!l->early)
    l->far->SetReceiveErrorModel(l->loss);
}

void World::GroupLine(Words &w)
{
  m_groups.emplace_back();
  Group &g = m_groups.back();
  auto number = static_cast<uint32_t>(m_groups.size() - 1);
  g.source = w.Index("source", m_nodes.size());
  g.layout.size = w.Number("size");
  g.layout.piece = w.Small("piece", DC_PAYLOAD_MAX);
  g.layout.per_block = w.Small("pieces per block");
  g.cacheBytes = w.Number("cache", UINT32_MAX);
  g.start = w.Number("start");
  g.stop = w.Number("stop");
  if (g.layout.piece == 0 || g.layout.per_block == 0)
    throw Error("a piece has at least one byte, a block at least one piece");
  if (m_changes.size)
    g.layout.size = *m_changes.size;
  if (m_changes.cache)
    g.cacheBytes = *m_changes.cache;
  if (g.start > INT64_MAX || (g.stop > INT64_MAX && g.stop != DC_NEVER))
    throw Error("a time is too late");
  while (w.More()) {
    NodeModel *node = m_nodes[w.Index("receiver", m_nodes.size())];
    ns3::Ptr<ReceiverModel> r = ns3::CreateObject<ReceiverModel>();
    r->Setup(node, number, g.layout, g.cacheBytes,
             g.stop == DC_NEVER ? ns3::MakeCallback(&World::Completed, this) : ns3::Callback<void>());
    r->SetStartTime(ns3::NanoSeconds(g.start));
    if (g.stop != DC_NEVER)
      r->SetStopTime(ns3::NanoSeconds(g.stop));
    else
      m_unfinished++;
    node->Get()->AddApplication(r);
    g.receivers.push_back(r);
  }
}

void World::TreeLine(Words &w)
{
  Tree t{};
  t.group = w.Index("group", m_groups.size());
  Group &g = m_groups[t.group];
  t.id = w.Small("tree id");
  t.cc = w.Word("rule");
  if (m_changes.cc)
    t.cc = *m_changes.cc;
  dc_source_cfg s{};
  s.cc = dc_cc_find(t.cc.c_str());
  if (s.cc == nullptr) {
    std::string known;
    for (unsigned i = 0; dc_cc_name(i) != nullptr; i++)
      known += std::string(i == 0 ? "" : ", ") + dc_cc_name(i);
    throw Error("no rule of rate control '" + t.cc + "'; there are " + known);
  }
  s.params.rate_init = w.Number("initial rate");
  s.params.rate_min = w.Number("least rate");
  s.params.rate_max = w.Number("highest rate");
  s.params.delta = w.Number("delta");
  s.params.interval = w.Number("interval");
  if (m_changes.delta)
    s.params.delta = *m_changes.delta;
  if (m_changes.interval)
    s.params.interval = *m_changes.interval;
  s.burst_packets = w.Small("burst");
  s.params.packet_bytes = w.Small("packet bytes");
  dc_receiver_cfg r{};
  r.credits = w.Small("credits", DC_CREDITS_MAX);
  if (m_changes.credits)
    r.credits = static_cast<uint32_t>(*m_changes.credits);
  s.params.credits = r.credits;
  r.batch = w.Small("batch", DC_BATCH_MAX);
  r.rto_min = w.Number("least RTO");
  r.rto_max = w.Number("highest RTO");
  r.rto_init = w.Number("initial RTO");
  r.reorder = w.Small("reorder");
  t.delta = s.params.delta;
  t.interval = s.params.interval;
  t.credits = r.credits;
  t.source = ns3::CreateObject<SourceModel>();
  t.source->Setup(m_nodes[g.source], t.id, t.group, g.layout, s);
  if (g.stop != DC_NEVER)
    t.source->SetStopTime(ns3::NanoSeconds(g.stop));
  m_nodes[g.source]->Get()->AddApplication(t.source);
  for (auto &receiver : g.receivers)
    receiver->AddTree(t.id, r);
  g.trees.push_back(static_cast<uint32_t>(m_trees.size()));
  m_trees.push_back(t);
  m_used.emplace_back(m_links.size(), false);
}

// A share of the links, told while it runs.
void World::LimitLine(Words &w)
{
  uint32_t tree = w.Index("tree", m_trees.size());
  uint64_t at = w.Number("time", INT64_MAX);
  uint64_t bps = w.Number("share");
  ns3::Simulator::Schedule(ns3::NanoSeconds(at), &SourceModel::Limit, m_trees[tree].source, bps);
}

static std::vector<uint8_t> Bytes(const std::string &hex)
{
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    size_t used = 0;
    try {
      out.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), &used, 16)));
    } catch (const std::exception &) {
    }
    if (used != 2)
      throw Error("a route is an even number of hex digits");
  }
  if (hex.size() % 2 != 0)
    throw Error("a route is an even number of hex digits");
  return out;
}

void World::RouteLine(Words &w)
{
  uint32_t tree = w.Index("tree", m_trees.size());
  Group &g = m_groups[m_trees[tree].group];
  uint32_t receiver = w.Index("receiver", g.receivers.size());
  std::vector<uint8_t> blob = Bytes(w.Word("route"));
  size_t i = static_cast<size_t>(std::find(g.trees.begin(), g.trees.end(), tree) - g.trees.begin());
  if (g.receivers[receiver]->Route(i, blob.data(), blob.size()) != 0)
    throw Error("a route is malformed");
  Arcs(tree, blob, receiver);
}

// The links that a route's data takes, for the link stress: along the interests' ports, each link's other direction.
void World::Arcs(uint32_t tree, const std::vector<uint8_t> &blob, uint32_t receiver)
{
  size_t done = 0;
  NodeModel *node = m_groups[m_trees[tree].group].receivers[receiver]->Where();
  while (done < blob.size()) {
    dc_stop stop;
    size_t n = dc_stop_parse(blob.data() + done, blob.size() - done, &stop);
    if (n == 0)
      return;
    done += n;
    for (unsigned i = 0; i < stop.fwd.n; i++) {
      Link *up = node->Port(stop.fwd.port[i]);
      if (up == nullptr)
        throw Error("a route leaves by a port that has no cable");
      auto number = static_cast<size_t>(std::find(m_links.begin(), m_links.end(), up) - m_links.begin());
      m_trees[tree].linksUsed += !m_used[tree][number];
      m_used[tree][number] = true;
      node = m_nodes[up->to];
    }
  }
}

void World::Assign(uint32_t tree, const dc_extent &e)
{
  Tree &t = m_trees[tree];
  Group &g = m_groups[t.group];
  size_t i = static_cast<size_t>(std::find(g.trees.begin(), g.trees.end(), tree) - g.trees.begin());
  bool bad = t.source->Assign(e) != 0;
  for (auto &r : g.receivers)
    bad = r->Assign(i, e) != 0 || bad;
  if (bad)
    throw Error("an extent does not go on from the one before, or there are too many");
}

void World::ExtentLine(Words &w)
{
  uint32_t tree = w.Index("tree", m_trees.size());
  dc_extent e{};
  e.seq = w.Small("sequence number");
  e.count = w.Small("count");
  e.first = w.Number("first piece");
  if (!m_changes.size && e.count > 0)
    Assign(tree, e);
}

void World::TcpLine(Words &w)
{
  std::string flavour = w.Word("flavour");
  uint64_t start = w.Number("start", INT64_MAX), stop = w.Number("stop", INT64_MAX);
  uint32_t segment = w.Small("segment");
  std::vector<uint32_t> path;
  while (w.More())
    path.push_back(w.Index("link", m_links.size()));
  std::string wrong = m_tcp.Add(flavour, start, stop, segment, path);
  if (!wrong.empty())
    throw Error(wrong);
}

static uint32_t PowerAbove(uint64_t n)
{
  uint32_t p = 64;
  while (p < n && p < DC_NODE_SLOTS_MAX)
    p *= 2;
  return p;
}

// Nodes get the room that the scenario says, or more when the command line changed what is asked of them.
void World::Prepare()
{
  dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.cache_bytes = m_room.cache;
  cfg.trees = std::max<uint32_t>(1, m_room.trees);
  cfg.store_slots = m_room.store;
  cfg.waiting_slots = m_room.waiting;
  for (const Tree &t : m_trees) {
    const Group &g = m_groups[t.group];
    if (m_changes.cache) {
      cfg.cache_bytes = std::max(cfg.cache_bytes, static_cast<uint32_t>(g.cacheBytes));
      cfg.store_slots = std::max(cfg.store_slots, PowerAbove(2 * g.cacheBytes / g.layout.piece + 1));
    }
    if (m_changes.credits)
      cfg.waiting_slots = std::max(cfg.waiting_slots, PowerAbove(8 * t.credits));
  }
  cfg.cache_bytes_max = std::max(cfg.cache_bytes_max, cfg.cache_bytes);
  cfg.memory_bytes = UINT64_C(1) << 40;
  const char *what;
  cfg.ports = 1;
  if (dc_node_cfg_check(&cfg, &what) != 0)
    throw Error(std::string("nodes cannot have this room: ") + what);
  for (NodeModel *node : m_nodes)
    node->Prepare(cfg);
  if (m_changes.loss && std::none_of(m_links.begin(), m_links.end(), [](Link *l) { return l->loss != nullptr; }))
    throw Error("--loss: the scenario has no `loss` line that says where");
  if (m_changes.size)
    for (Group &g : m_groups) { // evenly, in runs
      uint64_t n = dc_layout_pieces(&g.layout), first = 0;
      for (size_t i = 0; i < g.trees.size(); i++) {
        dc_extent e{};
        e.count = static_cast<uint32_t>(n / g.trees.size() + (i < n % g.trees.size()));
        e.first = first;
        first += e.count;
        if (e.count > 0)
          Assign(g.trees[i], e);
      }
    }
  m_ready = true;
}

void World::Completed()
{
  m_unfinished--;
  if (m_whole && m_unfinished == 0)
    ns3::Simulator::Stop();
}

uint64_t World::Run(uint64_t until, bool whole)
{
  if (!m_ready)
    Prepare();
  uint64_t now = static_cast<uint64_t>(ns3::Simulator::Now().GetNanoSeconds());
  if ((whole && m_unfinished == 0) || until <= now)
    return now;
  m_whole = whole;
  ns3::EventId end;
  if (until <= INT64_MAX)
    end = ns3::Simulator::Schedule(ns3::NanoSeconds(until - now), []() { ns3::Simulator::Stop(); });
  ns3::Simulator::Run();
  end.Cancel();
  return static_cast<uint64_t>(ns3::Simulator::Now().GetNanoSeconds());
}

} // namespace datacast
