// SPDX-License-Identifier: Apache-2.0
// The handles of what a rank has begun: requests, and panels that are read in their owner's block.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "partita/comm/arguments.hpp"
#include "partita/comm/thread/memory.hpp"
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

/// The root's own block as every rank sees it.
///
///   root      ThreadPanel  --view-->  its block  <--view--  ThreadPanel      peers
///             (drain() waits)                               (release() ends the loan)
///
/// A panel that is destroyed is released; so is every panel of a rank that leaves an operation with an exception, and
/// its view is empty from then on. A root's panel that dies while an exception unwinds fails the launch, unless all
/// have released it, and waits until no peer reads the block any more.
template <class T>
class [[nodiscard]] ThreadPanel {
 public:
  ThreadPanel() = default;
  ThreadPanel(std::shared_ptr<detail::Endpoint> end, detail::Operation& o, View<const T> view) noexcept
      : end_(std::move(end)),
        operation_(&o),
        ticket_(o.ticket),
        view_(view),
        exceptions_(std::uncaught_exceptions()),
        root_(o.post.root == end_->rank) {}
  ThreadPanel(ThreadPanel&& other) noexcept { swap(other); }
  ThreadPanel& operator=(ThreadPanel&& other) noexcept {
    ThreadPanel taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~ThreadPanel() {
    if (operation_ != nullptr && root_ && std::uncaught_exceptions() > exceptions_ && !end_->group->all_done(ticket_)) {
      end_->world->fail(end_->world_rank, "left while its panel was lent");
      detail::leave(*end_->world, *end_->me, true);
    }
    release();
  }

  void wait() {
    if (operation_ == nullptr || root_ || operation_->held) return;
    detail::Group& group = *end_->group;
    const int root = operation_->post.root;
    const auto ready = [&] {
      if (group.posted(ticket_, root)) return true;
      detail::advance_all(*end_->me);
      return group.posted(ticket_, root);
    };
    detail::wait_or_leave(*end_, operation_->name, detail::Parked::for_operations, ready,
                          [&] { return group.departed(ticket_, root, false); });
    try {
      borrow(root);
    } catch (const Error& error) {
      end_->world->fail(end_->world_rank, error.what());
      detail::leave(*end_->world, *end_->me, true);
      throw;
    }
  }

  /// Empty on a peer before wait() and after release().
  [[nodiscard]] View<const T> view() const noexcept {
    if (operation_ == nullptr || (!root_ && !operation_->held)) return {};
    return view_;
  }

  void release() noexcept {
    if (operation_ == nullptr) return;
    if (operation_->open) {  // given up before its calls were compared
      detail::close_task(*end_->me, *operation_, false);
      operation_->uninspected = false;
      if (root_) detail::finish(*operation_);
    }
    if (!root_) {
      if (operation_->held) {
        operation_->held = false;
        std::erase(end_->me->held, operation_);
        const int owner = end_->group->world_rank(operation_->post.root);
        end_->world->rank(owner).borrowed.fetch_sub(1);
      }
      detail::finish(*operation_);
    }
    if (operation_->ticket == ticket_) operation_->owed = false;
    operation_ = nullptr;
    end_.reset();
  }

 private:
  void borrow(int root) {
    const detail::Touch touch(*end_->world, *end_->me);
    const detail::Post& post = detail::post_of(*operation_, root);
    detail::check_shape(operation_->name, "the panel of the root", {post.in.rows, post.in.cols}, view_.shape());
    end_->me->held.push_back(operation_);
    operation_->held = true;
    end_->world->rank(end_->group->world_rank(root)).borrowed.fetch_add(1);
    view_ = detail::view_of<const T>(post.in);
    end_->world->credit(end_->world_rank, 1, view_.size(), sizeof(T));
  }

  void swap(ThreadPanel& other) noexcept {
    std::swap(end_, other.end_);
    std::swap(operation_, other.operation_);
    std::swap(ticket_, other.ticket_);
    std::swap(view_, other.view_);
    std::swap(exceptions_, other.exceptions_);
    std::swap(root_, other.root_);
  }

  std::shared_ptr<detail::Endpoint> end_;
  detail::Operation* operation_ = nullptr;
  std::uint64_t ticket_ = 0;
  View<const T> view_;
  int exceptions_ = 0;
  bool root_ = false;
};

static_assert(CommRequest<ThreadRequest>);
static_assert(CommPanel<ThreadPanel<double>, double>);

}  // namespace partita
