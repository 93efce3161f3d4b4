// SPDX-License-Identifier: Apache-2.0
// The handle of an operation that a rank has begun.
#pragma once

#include <memory>
#include <utility>

#include "partita/comm/thread/ring.hpp"

namespace partita {

/// A pending operation of a ThreadComm. Destroyed without wait(), it fails the launch: peers could otherwise wait for
/// a buffer that no longer exists. Its destructor returns when none of them is inside that buffer.
class [[nodiscard]] ThreadRequest {
 public:
  ThreadRequest() = default;
  ThreadRequest(std::shared_ptr<detail::Endpoint> end, detail::Task& task) noexcept
      : end_(std::move(end)), task_(&task), ticket_(task.ticket) {}
  ThreadRequest(ThreadRequest&& other) noexcept { swap(other); }
  ThreadRequest& operator=(ThreadRequest&& other) noexcept {
    ThreadRequest taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~ThreadRequest() {
    if (task_ != nullptr) detail::abandon(*end_, *task_, ticket_);
  }

  void wait() {
    if (task_ == nullptr) return;
    detail::Task& task = *std::exchange(task_, nullptr);
    const std::shared_ptr<detail::Endpoint> end = std::move(end_);
    detail::complete(*end, task, ticket_);
  }

 private:
  void swap(ThreadRequest& other) noexcept {
    std::swap(end_, other.end_);
    std::swap(task_, other.task_);
    std::swap(ticket_, other.ticket_);
  }

  std::shared_ptr<detail::Endpoint> end_;
  detail::Task* task_ = nullptr;
  std::uint64_t ticket_ = 0;
};

static_assert(CommRequest<ThreadRequest>);

}  // namespace partita
