// What came out, as JSON. Names and order of the counters are those of simulation/src/api.h.
#include "world.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <iomanip>
#include <limits>

namespace datacast {

namespace {

// Writes an object or an array; what is inside is separated by commas.
class Json {
public:
  Json(std::ostream &out, char open) : m_out(out), m_close(open == '{' ? '}' : ']') { m_out << open; }
  ~Json() { m_out << m_close; }
  Json(const Json &) = delete;
  Json &operator=(const Json &) = delete;

  std::ostream &Next()
  {
    if (!m_first)
      m_out << ',';
    m_first = false;
    return m_out;
  }
  std::ostream &Key(const char *name) { return Next() << '"' << name << "\":"; }
  template <class T> void Put(const char *name, T value) { Key(name) << value; }
  void Put(const char *name, bool value) { Key(name) << (value ? "true" : "false"); }

private:
  std::ostream &m_out;
  char m_close;
  bool m_first = true;
};

uint64_t Bytes(const Group &g, uint64_t pieces)
{
  return pieces == dc_layout_pieces(&g.layout) ? g.layout.size : pieces * g.layout.piece;
}

void Receiver(std::ostream &out, const Group &g, const ReceiverModel &r)
{
  Json j(out, '{');
  j.Put("whole", r.Whole());
  j.Put("alive", true);
  j.Put("finish", r.Finish());
  j.Put("pieces", r.Pieces());
  j.Put("bytes", Bytes(g, r.Pieces()));
  j.Put("first", r.First());
  j.Put("wrong", r.Wrong());
  j.Put("bad_blocks", 0);
}

void Asker(std::ostream &out, const struct dc_receiver_counters &c)
{
  Json j(out, '{');
  j.Put("interests", c.interests);
  j.Put("retransmitted", c.retransmitted);
  j.Put("by_gap", c.by_gap);
  j.Put("by_timeout", c.by_timeout);
  j.Put("data", c.data);
  j.Put("duplicates", c.duplicates);
  j.Put("unknown", c.unknown);
  j.Put("srtt", c.srtt);
  j.Put("rto", c.rto);
  j.Put("credits", c.credits);
  j.Put("outstanding", c.outstanding);
}

void Source(std::ostream &out, const SourceModel &s)
{
  struct dc_source_counters c = s.Counters();
  uint64_t dropped = s.Dropped();
  for (uint64_t d : c.drop)
    dropped += d;
  Json j(out, '{');
  j.Put("rate", c.rate);
  j.Put("interests", c.interests);
  j.Put("merged", c.merged);
  j.Put("duplicates", c.duplicates);
  j.Put("refetches", c.refetches);
  j.Put("new_packets", c.new_packets);
  j.Put("dup_packets", c.dup_packets);
  j.Put("first", s.First());
  j.Put("dropped", dropped);
  j.Put("queued", c.queued);
}

void OneLink(std::ostream &out, const Link &l)
{
  Json j(out, '{');
  j.Put("frames", l.frames);
  j.Put("bytes", l.bytes);
  j.Put("data", l.data);
  j.Put("data_bytes", l.dataBytes);
  j.Put("payload", l.payload);
  j.Put("dropped", l.dropped);
  j.Put("lost", l.loss == nullptr ? 0 : l.loss->lost);
  j.Put("queue_max", l.queueMax);
}

void Node(std::ostream &out, const dc_node *node)
{
  struct dc_node_counters c;
  static struct dc_tree_counters t[64];
  dc_node_counters(node, &c);
  uint64_t drops = 0, evicted = 0, misses = 0, aggregated = 0, waiting = 0;
  for (uint64_t d : c.drop)
    drops += d;
  unsigned n = dc_node_tree_counters(node, t, 64);
  for (unsigned i = 0; i < n; i++) {
    evicted += t[i].evicted;
    misses += t[i].misses;
    aggregated += t[i].aggregated;
    waiting += t[i].waiting;
  }
  Json j(out, '{');
  j.Put("interests", c.interests);
  j.Put("hits", c.hits);
  j.Put("data", c.data);
  j.Put("forwarded", c.forwarded);
  j.Put("drops", drops);
  j.Put("bytes", c.bytes);
  j.Put("evicted", evicted);
  j.Put("misses", misses);
  j.Put("aggregated", aggregated);
  j.Put("waiting", waiting);
}

} // namespace

uint64_t World::Payload() const
{
  uint64_t total = 0;
  for (const Link *l : m_links)
    total += l->payload;
  return total;
}

void World::Report(std::ostream &out) const
{
  uint64_t hops = 0;
  for (const Link *l : m_links)
    hops += l->frames;
  {
    Json all(out, '{');
    all.Put("now", static_cast<uint64_t>(ns3::Simulator::Now().GetNanoSeconds()));
    all.Put("hops", hops);
    all.Key("receiver");
    {
      Json groups(out, '[');
      for (const Group &g : m_groups) {
        groups.Next();
        Json list(out, '[');
        for (const auto &r : g.receivers) {
          list.Next();
          Receiver(out, g, *r);
        }
      }
    }
    all.Key("tree");
    {
      Json list(out, '[');
      for (const Tree &t : m_trees) {
        list.Next();
        Source(out, *t.source);
      }
    }
    all.Key("asker");
    {
      Json trees(out, '[');
      for (size_t t = 0; t < m_trees.size(); t++) {
        const Group &g = m_groups[m_trees[t].group];
        size_t i = static_cast<size_t>(std::find(g.trees.begin(), g.trees.end(), t) - g.trees.begin());
        trees.Next();
        Json list(out, '[');
        for (const auto &r : g.receivers) {
          list.Next();
          Asker(out, r->Counters(i));
        }
      }
    }
    all.Key("link");
    {
      Json list(out, '[');
      for (const Link *l : m_links) {
        list.Next();
        OneLink(out, *l);
      }
    }
    all.Key("node");
    {
      Json list(out, '[');
      for (const NodeModel *n : m_nodes) {
        list.Next();
        Node(out, n->Core());
      }
    }
    all.Key("tcp");
    {
      Json list(out, '[');
      for (const TcpFlow &f : m_tcp.Flows())
        list.Next() << f.Bytes();
    }
  }
  out << std::endl;
}

void World::Rows(std::ostream &out) const
{
  double ideal = 0;
  uint64_t hops = 0;
  for (const Tree &t : m_trees) {
    const Group &g = m_groups[t.group];
    uint64_t sent = 0;
    for (uint32_t i : g.trees)
      sent += m_trees[i].source->Counters().new_packets;
    ideal += static_cast<double>(g.layout.size) * static_cast<double>(t.source->Counters().new_packets) /
             static_cast<double>(std::max<uint64_t>(1, sent)) * t.linksUsed;
  }
  for (const Link *l : m_links)
    hops += l->frames;
  out << std::setprecision(std::numeric_limits<double>::max_digits10);
  {
    Json all(out, '{');
    all.Key("rows");
    Json rows(out, '[');
    for (const Group &g : m_groups) {
      uint64_t fresh = 0, dup = 0, retransmitted = 0, wrong = 0;
      dc_time finish = 0;
      for (uint32_t i : g.trees) {
        fresh += m_trees[i].source->Counters().new_packets;
        dup += m_trees[i].source->Counters().dup_packets;
      }
      for (const auto &r : g.receivers) {
        finish = std::max(finish, r->Finish());
        wrong += r->Wrong();
        for (size_t i = 0; i < g.trees.size(); i++)
          retransmitted += r->Counters(i).retransmitted;
      }
      double seconds = static_cast<double>(finish - g.start) / 1e9;
      rows.Next();
      Json j(out, '{');
      if (!g.trees.empty()) {
        j.Key("cc") << '"' << m_trees[g.trees[0]].cc << '"';
        j.Put("delta_mbps", static_cast<double>(m_trees[g.trees[0]].delta) / 1e6);
        j.Put("credits", m_trees[g.trees[0]].credits);
      }
      j.Put("cache_kb", static_cast<double>(g.cacheBytes) / 1024);
      j.Put("size", g.layout.size);
      if (finish != DC_NEVER && g.stop == DC_NEVER && !g.receivers.empty()) {
        j.Put("finish_s", seconds);
        j.Put("throughput_mbps", static_cast<double>(g.layout.size) * 8 / seconds / 1e6);
      }
      j.Put("duplicate_ratio", static_cast<double>(dup) / static_cast<double>(std::max<uint64_t>(1, fresh)));
      j.Put("link_stress", ideal > 0 ? static_cast<double>(Payload()) / ideal : 0.0);
      j.Put("new_packets", fresh);
      j.Put("duplicates", dup);
      j.Put("retransmitted", retransmitted);
      j.Put("wrong_pieces", wrong);
      j.Put("packet_hops", hops);
    }
  }
  out << std::endl;
}

} // namespace datacast
