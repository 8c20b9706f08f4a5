// libdatacast's source of one tree as an ns-3 application.
#ifndef DATACAST_NS3_SOURCE_H
#define DATACAST_NS3_SOURCE_H

#include "node.h"

#include "ns3/application.h"

namespace datacast
{

class SourceModel : public ns3::Application, public Endpoint
{
public:
  static ns3::TypeId GetTypeId();
  SourceModel();
  ~SourceModel() override;

  void Setup(NodeModel *node, uint32_t tree, uint32_t group, const dc_layout &layout, const dc_source_cfg &cfg);
  // 0 or -errno, as dc_extents_append.
  int Assign(const dc_extent &e);
  void Limit(uint64_t bps);
  void Interest(const uint8_t *p, uint32_t len) override;

  struct dc_source_counters Counters() const;
  uint64_t Dropped() const { return m_dropped; }
  dc_time First() const { return m_first; }

private:
  void StopApplication() override { m_stopped = true; }
  void SendData();
  void Wake(dc_time at);

  NodeModel *m_node = nullptr;
  uint32_t m_tree = 0, m_group = 0;
  dc_layout m_layout{};
  dc_extents m_extents{};
  void *m_memory;
  dc_source *m_core = nullptr;
  dc_time m_armed = DC_NEVER, m_first = DC_NEVER;
  uint64_t m_dropped = 0;
  bool m_stopped = false;
};

} // namespace datacast

#endif
