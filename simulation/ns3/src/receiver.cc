#include "receiver.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace datacast {

NS_OBJECT_ENSURE_REGISTERED(ReceiverModel);

static dc_time Now() { return static_cast<dc_time>(ns3::Simulator::Now().GetNanoSeconds()); }
static const uint8_t nowhere[6] = {};

ns3::TypeId ReceiverModel::GetTypeId()
{
  static ns3::TypeId tid =
      ns3::TypeId("datacast::ReceiverModel").SetParent<ns3::Application>().AddConstructor<ReceiverModel>();
  return tid;
}

ReceiverModel::~ReceiverModel()
{
  for (auto &a : m_askers)
    std::free(a->core);
  std::free(m_memory);
}

void ReceiverModel::Setup(NodeModel *node, uint32_t group, const dc_layout &layout, uint64_t cacheBytes,
                          ns3::Callback<void> whole)
{
  m_node = node;
  m_group = group;
  m_layout = layout;
  m_cacheCode = dc_cache_code(cacheBytes);
  m_whole = whole;
  m_memory = std::calloc(1, dc_pieces_size(&layout));
  if (m_memory == nullptr)
    throw std::bad_alloc();
  m_pieces = dc_pieces_init(m_memory, &m_layout);
}

void ReceiverModel::AddTree(uint32_t tree, const dc_receiver_cfg &cfg)
{
  void *memory = std::malloc(dc_receiver_size());
  if (memory == nullptr)
    throw std::bad_alloc();
  m_askers.emplace_back(new Asker{tree, dc_receiver_init(memory, Now(), &cfg, m_pieces), {}, false, DC_NEVER});
  m_node->AddReceiver(tree, this);
}

int ReceiverModel::Route(size_t i, const uint8_t *blob, size_t len)
{
  int rc = dc_path_parse(&m_askers[i]->path, blob, len);
  m_askers[i]->routed = rc == 0;
  return rc;
}

int ReceiverModel::Assign(size_t i, const dc_extent &e) { return dc_receiver_assign(m_askers[i]->core, &e); }

void ReceiverModel::StartApplication()
{
  m_silent = false;
  if (Whole() && m_finish == DC_NEVER)
    Complete();
  for (auto &a : m_askers)
    if (a->routed)
      Ask(*a);
  m_node->Drain();
}

void ReceiverModel::Complete()
{
  m_finish = Now();
  m_whole();
}

void ReceiverModel::Ask(Asker &a)
{
  dc_interest in[64];
  unsigned n;
  do {
    n = dc_receiver_poll(a.core, Now(), in, 64);
    for (unsigned i = 0; i < n; i++) {
      dc_header h{};
      h.flags = in[i].flags;
      h.tree = a.tree;
      h.seq = in[i].seq;
      h.more = in[i].more;
      h.cache = m_cacheCode;
      uint8_t p[FRONT_MAX];
      auto len = static_cast<uint32_t>(dc_interest_write(p, sizeof p, &a.path, &h, nowhere, nowhere));
      m_node->Send(a.path.first, p, len, len);
    }
  } while (n == 64);
  dc_time wake = dc_receiver_next_wake(a.core);
  if (wake < a.armed) {
    a.armed = wake;
    ns3::Simulator::Schedule(ns3::NanoSeconds(wake > Now() ? wake - Now() : 0), &ReceiverModel::Wake, this, &a, wake);
  }
}

void ReceiverModel::Wake(Asker *a, dc_time at)
{
  if (a->armed != at)
    return;
  a->armed = DC_NEVER;
  if (!m_silent)
    Ask(*a);
  m_node->Drain();
}

void ReceiverModel::Data(uint32_t tree, const dc_header &h, const uint8_t *payload, uint32_t real)
{
  auto found = std::find_if(m_askers.begin(), m_askers.end(), [tree](auto &a) { return a->tree == tree; });
  if (found == m_askers.end() || !(*found)->routed || m_silent)
    return;
  Asker &a = **found;
  uint64_t piece;
  if (dc_receiver_handle(a.core, Now(), &h, &piece) == DC_RX_NEW) {
    uint64_t want = Content(m_group, piece);
    uint32_t kept = std::min<uint32_t>(h.length, STAMP);
    if (real < kept || std::memcmp(payload, &want, kept) != 0)
      m_wrong++;
    m_first = std::min(m_first, Now());
    if (Whole() && m_finish == DC_NEVER)
      Complete();
  }
  Ask(a);
}

struct dc_receiver_counters ReceiverModel::Counters(size_t i) const
{
  struct dc_receiver_counters c;
  dc_receiver_counters(m_askers[i]->core, &c);
  return c;
}

} // namespace datacast
