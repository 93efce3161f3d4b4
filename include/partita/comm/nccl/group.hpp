// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator of a rank, from its making to its end, and calls that NCCL is to begin together.
#pragma once

#include <memory>
#include <utility>

#include "partita/comm/nccl/world.hpp"

namespace partita::detail {

struct NcclGroup {
  explicit NcclGroup(std::shared_ptr<NcclWorld> of) : world(std::move(of)) { world->enter(&comm); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() { world->leave(&comm); }

  std::shared_ptr<NcclWorld> world;
  ncclComm_t comm = nullptr;
  int rank = 0;
  int size = 1;
};

/// Calls do not block: whoever makes one waits for it against the deadline.
[[nodiscard]] inline ncclConfig_t nccl_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  return config;
}

/// `make(&comm, &config)` is the call of NCCL that makes it, collectively; null where it leaves out this rank.
template <class Make>
[[nodiscard]] std::shared_ptr<NcclGroup> make_nccl_group(const std::shared_ptr<NcclWorld>& world, const char* call,
                                                         ncclComm_t parent, Make make) {
  auto group = std::make_shared<NcclGroup>(world);
  world->guard([&] {
    ncclConfig_t config = nccl_config();
    world->check(make(&group->comm, &config), call);
    if (parent != nullptr) world->settle(parent, call);
    if (group->comm == nullptr) return;
    world->settle(group->comm, call);
    world->check(ncclCommUserRank(group->comm, &group->rank), "ncclCommUserRank");
    world->check(ncclCommCount(group->comm, &group->size), "ncclCommCount");
  });
  return group->comm == nullptr ? nullptr : group;
}

/// NCCL's calls of one communicator between here and end() begin together.
class NcclCalls {
 public:
  explicit NcclCalls(NcclGroup& group) : group_(group) { group_.world->check(ncclGroupStart(), "ncclGroupStart"); }
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;
  ~NcclCalls() {
    if (open_) (void)ncclGroupEnd();
  }
  void end() {
    open_ = false;
    group_.world->check(ncclGroupEnd(), "ncclGroupEnd");
    group_.world->settle(group_.comm, "ncclGroupEnd");
  }

 private:
  NcclGroup& group_;
  bool open_ = true;
};

}  // namespace partita::detail
