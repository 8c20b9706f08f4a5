#include "source.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace datacast {

NS_OBJECT_ENSURE_REGISTERED(SourceModel);

static dc_time Now() { return static_cast<dc_time>(ns3::Simulator::Now().GetNanoSeconds()); }
static const uint8_t nowhere[6] = {};

ns3::TypeId SourceModel::GetTypeId()
{
  static ns3::TypeId tid =
      ns3::TypeId("datacast::SourceModel").SetParent<ns3::Application>().AddConstructor<SourceModel>();
  return tid;
}

SourceModel::SourceModel() : m_memory(std::malloc(dc_source_size())) {}
SourceModel::~SourceModel() { std::free(m_memory); }

void SourceModel::Setup(NodeModel *node, uint32_t tree, uint32_t group, const dc_layout &layout,
                        const dc_source_cfg &cfg)
{
  m_node = node;
  m_tree = tree;
  m_group = group;
  m_layout = layout;
  m_core = dc_source_init(m_memory, Now(), &cfg);
  node->AddSource(tree, this);
}

int SourceModel::Assign(const dc_extent &e)
{
  int rc = dc_extents_append(&m_extents, &e);
  if (rc == 0)
    dc_source_assign(m_core, e.seq, e.count);
  return rc;
}

void SourceModel::Limit(uint64_t bps)
{
  dc_source_limit(m_core, Now(), bps);
  if (!m_stopped)
    SendData();
}

void SourceModel::Interest(const uint8_t *p, uint32_t len)
{
  dc_header h;
  dc_segment back;
  if (dc_interest_at_source(p, len, &h, &back) != DC_DROP_NONE) {
    m_dropped++;
    return;
  }
  dc_source_handle(m_core, Now(), &h, &back);
  SendData();
}

void SourceModel::SendData()
{
  dc_source_tx tx[64];
  unsigned n;
  do {
    n = dc_source_poll(m_core, Now(), tx, 64);
    for (unsigned i = 0; i < n; i++) {
      uint64_t piece;
      if (!dc_extents_piece(&m_extents, tx[i].seq, &piece))
        continue;
      dc_header h{};
      h.flags = tx[i].flags;
      h.length = static_cast<uint16_t>(dc_layout_piece_len(&m_layout, piece));
      h.tree = m_tree;
      h.seq = tx[i].seq;
      uint8_t p[FRONT_MAX];
      auto front = static_cast<uint32_t>(dc_data_write(p, sizeof p, tx[i].ret, &h, nowhere, nowhere));
      uint64_t stamp = Content(m_group, piece);
      uint32_t kept = std::min<uint32_t>(h.length, STAMP);
      std::memcpy(p + front, &stamp, kept);
      m_first = std::min(m_first, Now());
      m_node->Send(*tx[i].ret, p, front + kept, front + h.length);
    }
  } while (n == 64);
  dc_time wake = dc_source_next_wake(m_core);
  if (wake < m_armed) {
    m_armed = wake;
    ns3::Simulator::Schedule(ns3::NanoSeconds(wake > Now() ? wake - Now() : 0), &SourceModel::Wake, this, wake);
  }
}

void SourceModel::Wake(dc_time at)
{
  if (m_armed != at)
    return; // it was woken earlier meanwhile, and that has been done
  m_armed = DC_NEVER;
  if (!m_stopped)
    SendData();
  m_node->Drain();
}

struct dc_source_counters SourceModel::Counters() const
{
  struct dc_source_counters c;
  dc_source_counters(m_core, &c);
  return c;
}

} // namespace datacast
