// SPDX-License-Identifier: Apache-2.0
// The handle of an operation that an MPI rank has begun.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "partita/comm/mpi/world.hpp"

namespace partita {

/// A pending operation of an MpiComm. Destroyed before it is complete, it fails the world: MPI cannot cancel it, and
/// may write to its buffers as long as this rank lets MPI go on, which it no longer does.
class [[nodiscard]] MpiRequest {
 public:
  MpiRequest() = default;
  MpiRequest(std::shared_ptr<detail::MpiWorld> world, std::shared_ptr<detail::MpiTask> task) noexcept
      : world_(std::move(world)), task_(std::move(task)) {}
  MpiRequest(MpiRequest&&) noexcept = default;
  MpiRequest& operator=(MpiRequest&& other) noexcept {
    MpiRequest taken(std::move(other));
    std::swap(world_, taken.world_);
    std::swap(task_, taken.task_);
    return *this;
  }
  ~MpiRequest() {
    if (task_ != nullptr && !task_->done) {
      world_->fail(std::string("it abandoned an operation that it had begun, ") + task_->name);
    }
  }

  void wait() {
    const std::shared_ptr<detail::MpiTask> task = std::move(task_);
    task_ = nullptr;
    if (task == nullptr || task->done) return;
    world_->wait_until(task->name, [&task] { return task->done; });
  }

 private:
  std::shared_ptr<detail::MpiWorld> world_;
  std::shared_ptr<detail::MpiTask> task_;
};

static_assert(CommRequest<MpiRequest>);

}  // namespace partita
