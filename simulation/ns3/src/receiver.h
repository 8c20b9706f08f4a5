// One receiver of a group, over all its trees, as an ns-3 application around libdatacast's receivers.
#ifndef DATACAST_NS3_RECEIVER_H
#define DATACAST_NS3_RECEIVER_H

#include "node.h"

#include "ns3/application.h"
#include "ns3/callback.h"

#include <memory>
#include <vector>

namespace datacast
{

class ReceiverModel : public ns3::Application, public Endpoint
{
public:
  static ns3::TypeId GetTypeId();
  ReceiverModel() = default;
  ~ReceiverModel() override;

  // `whole` is called once, when the file is whole.
  void Setup(NodeModel *node, uint32_t group, const dc_layout &layout, uint64_t cacheBytes, ns3::Callback<void> whole);
  void AddTree(uint32_t tree, const dc_receiver_cfg &cfg);
  // Of the tree that was added as number `i`. 0 or -errno.
  int Route(size_t i, const uint8_t *blob, size_t len);
  int Assign(size_t i, const dc_extent &e);
  void Data(uint32_t tree, const dc_header &h, const uint8_t *payload, uint32_t real) override;

  NodeModel *Where() const { return m_node; }
  bool Whole() const { return dc_pieces_whole(m_pieces); }
  uint64_t Pieces() const { return dc_pieces_held(m_pieces); }
  uint64_t Wrong() const { return m_wrong; }
  dc_time First() const { return m_first; }
  dc_time Finish() const { return m_finish; }
  struct dc_receiver_counters Counters(size_t i) const;

private:
  struct Asker { // this receiver in one tree
    uint32_t tree;
    dc_receiver *core;
    dc_path path;
    bool routed;
    dc_time armed;
  };
  void StartApplication() override;
  void StopApplication() override { m_silent = true; }
  void Ask(Asker &a);
  void Wake(Asker *a, dc_time at);
  void Complete();

  NodeModel *m_node = nullptr;
  uint32_t m_group = 0;
  dc_layout m_layout{};
  uint8_t m_cacheCode = 0;
  void *m_memory = nullptr;
  dc_pieces *m_pieces = nullptr;
  std::vector<std::unique_ptr<Asker>> m_askers;
  ns3::Callback<void> m_whole;
  uint64_t m_wrong = 0; // pieces whose content is not the source's
  dc_time m_first = DC_NEVER, m_finish = DC_NEVER;
  bool m_silent = true;
};

} // namespace datacast

#endif
