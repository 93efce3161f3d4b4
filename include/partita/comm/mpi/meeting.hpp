// SPDX-License-Identifier: Apache-2.0
// A collective of ranks that all share memory: each shows what it brings, works on what all have shown, and leaves.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "partita/comm/mpi/group.hpp"
#include "partita/comm/thread/sum.hpp"

namespace partita::detail {

/// The stages of one member:
///
///   entering ---- slot free: posts ----> posted ---- all have: work() ----> left ---- awaited have ----> complete
///
/// Where a buffer lies outside the window and there is no room to stage it, all members see that it is nowhere, and
/// all go on by messages.
class MpiMeeting : public MpiTask {
 public:
  enum Kind : index_t { control, reduction, scattered_reduction, sum_on_all, gathering };

  MpiMeeting(const char* task_name, std::shared_ptr<MpiGroup> group, Kind kind)
      : MpiTask(task_name), group_(std::move(group)), number_(group_->meeting_number++) {
    post_.kind = kind;
  }

  bool advance() final {
    MeetingBoard& board = group_->meetings;
    if (stage_ == Stage::entering) {
      if (!board.free(number_)) return false;
      stage_ = Stage::posted;
      if (board.arrive(number_, group_->rank, post_)) group_->ring_members();
    }
    if (stage_ == Stage::posted) {
      if (!board.all_arrived(number_)) return false;
      check_posts();
      if (!reachable_) {
        by_messages_ = by_messages();
      } else {
        work();
      }
      stage_ = Stage::left;
      const bool as_root = awaits_ == Awaits::root && post_.value == group_->rank;
      if (board.leave(number_, as_root) || as_root) group_->ring_members();
    }
    if (by_messages_ != nullptr) return by_messages_->advance();
    if (awaits_ == Awaits::all && !board.over(number_)) return false;
    if (awaits_ == Awaits::root && !board.root_has_left(number_)) return false;
    finish();
    return true;
  }
  [[nodiscard]] bool uses_messages() const noexcept final { return by_messages_ != nullptr; }

 protected:
  /// Who must have left, beside this member, before the operation is complete. The root is the member post_.value.
  enum class Awaits { all, root, nobody };

  /// Touches what the members have posted.
  virtual void work() = 0;
  /// What is left to do once no peer touches this member's memory.
  virtual void finish() {}
  /// The same operation without shared memory.
  virtual std::shared_ptr<MpiTask> by_messages() { return nullptr; }
  /// Whether a post is of the same call as this member's.
  [[nodiscard]] virtual bool matches(const MeetingPost& theirs, [[maybe_unused]] int member) const {
    return theirs.rows == post_.rows && theirs.cols == post_.cols;
  }

  [[nodiscard]] const MeetingPost& post_of(int member) const noexcept { return group_->meetings.post(number_, member); }
  template <class T>
  [[nodiscard]] View<const T> in_of(int member) const noexcept {
    const MeetingPost& post = post_of(member);
    return {reinterpret_cast<const T*>(group_->segment(member) + post.in), post.rows, post.cols, post.in_ld};
  }
  template <class T>
  [[nodiscard]] View<T> out_of(int member) const noexcept {
    const MeetingPost& post = post_of(member);
    return {reinterpret_cast<T*>(group_->segment(member) + post.out), post.rows, post.cols, post.out_ld};
  }

  /// Where a buffer lies in this rank's segment; outside it, a place for a copy of it, or nowhere.
  template <class T>
  [[nodiscard]] index_t place(View<T>& buffer, Memory& staged) {
    if (buffer.empty()) return 0;
    const std::shared_ptr<MpiArena>& arena = group_->world->arena();
    const auto span = extent_of(buffer);
    if (const auto at = arena->offset_of(span.begin, static_cast<std::size_t>(span.end - span.begin) * sizeof(T))) {
      return *at;
    }
    staged = allocate_shared(arena, static_cast<std::size_t>(buffer.size()) * sizeof(T));
    if (!staged) return MeetingPost::nowhere;
    buffer = View<T>(reinterpret_cast<T*>(staged.get()), buffer.shape());
    return staged.get() - group_->segment(group_->rank);
  }
  template <class T>
  void post_in(View<const T> in) {
    View<const T> shown = in;
    post_.rows = in.rows;
    post_.cols = in.cols;
    post_.in = place(shown, staged_in_);
    post_.in_ld = shown.ld;
    if (staged_in_) copy_rectangle(in, View<T>(const_cast<T*>(shown.data), shown.shape()));
  }

  std::shared_ptr<MpiGroup> group_;
  std::uint64_t number_;
  MeetingPost post_;
  Awaits awaits_ = Awaits::all;

 private:
  enum class Stage { entering, posted, left };

  void check_posts() {
    for (int m = 0; m < group_->size; ++m) {
      const MeetingPost& theirs = post_of(m);
      if (theirs.kind != post_.kind || !matches(theirs, m)) {
        throw ShapeError(std::string("ShapeError: ") + name + ": rank " + std::to_string(m) + " has " +
                         to_string(Shape{theirs.rows, theirs.cols}) +
                         (theirs.kind == post_.kind ? "" : " in another call") + ", rank " +
                         std::to_string(group_->rank) + " expects " + to_string(Shape{post_.rows, post_.cols}));
      }
      reachable_ = reachable_ && theirs.in != MeetingPost::nowhere && theirs.out != MeetingPost::nowhere;
    }
    MpiStatistics& statistics = group_->world->statistics;
    if (post_.kind != control) ++(reachable_ ? statistics.meetings_in_place : statistics.meetings_by_messages);
  }

  Stage stage_ = Stage::entering;
  bool reachable_ = true;
  Memory staged_in_;
  std::shared_ptr<MpiTask> by_messages_;
};

/// The largest value of all members; a barrier, where nobody asks for it.
class MpiNodeAgreement final : public MpiMeeting {
 public:
  MpiNodeAgreement(const char* task_name, std::shared_ptr<MpiGroup> group, index_t value)
      : MpiMeeting(task_name, std::move(group), control) {
    post_.value = value;
    awaits_ = Awaits::nobody;
  }
  index_t largest = 0;

 private:
  void work() override {
    largest = post_.value;
    for (int m = 0; m < group_->size; ++m) largest = std::max(largest, post_of(m).value);
  }
};

/// The largest value of all ranks, on all ranks: in shared memory where all members share it, else by MPI.
[[nodiscard]] inline index_t agree_among(const std::shared_ptr<MpiGroup>& group, const char* name, index_t value) {
  MpiWorld& world = *group->world;
  if (!group->meetings) return control_max(world, group->comm, name, value);
  const auto task = world.make<MpiNodeAgreement>(name, group, value);
  world.begin(task);
  if (!task->done) world.wait_until(name, [&task] { return task->done; });
  return task->largest;
}

/// Returns when all ranks have entered.
inline void meet(const std::shared_ptr<MpiGroup>& group, const char* name) {
  if (group->meetings) {
    static_cast<void>(agree_among(group, name, 0));
  } else {
    control_barrier(*group->world, group->comm, name);
  }
}

}  // namespace partita::detail
