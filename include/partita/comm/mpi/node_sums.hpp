// SPDX-License-Identifier: Apache-2.0
// Sums and gathers of ranks that all share memory: straight from the blocks of the members to where the result stands.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "partita/comm/mpi/meeting.hpp"
#include "partita/comm/mpi/sums.hpp"

namespace partita::detail {

/// Root's `out` = [out +] the sum of what stands in the members' blocks.
template <class T>
class MpiNodeReduce final : public MpiMeeting {
 public:
  MpiNodeReduce(std::shared_ptr<MpiGroup> group, View<const T> in, View<T> out, int root, Into into, int tag)
      : MpiMeeting("reduce", std::move(group), reduction), in_(in), out_(out), root_(root), into_(into), tag_(tag) {
    post_in(in);
    post_.value = root;
    awaits_ = Awaits::root;
  }

 private:
  void work() override {
    if (group_->rank != root_) return credit<T>(*group_, in_.size());
    combine_range<T>(
        {0, out_.size()}, ReduceOp::sum, into_, group_->size, [this](int m) { return in_of<T>(m); }, 1,
        [this](int) { return out_; });
  }
  [[nodiscard]] bool matches(const MeetingPost& theirs, int member) const override {
    return theirs.value == root_ && MpiMeeting::matches(theirs, member);
  }
  std::shared_ptr<MpiTask> by_messages() override {
    return reduce_by_messages<T>(group_, in_, out_, root_, into_, tag_);
  }

  View<const T> in_;
  View<T> out_;
  int root_;
  Into into_;
  int tag_;
};

/// Each member's `out` = the sum of its block of the members' rectangles.
template <class T>
class MpiNodeReduceScatter final : public MpiMeeting {
 public:
  MpiNodeReduceScatter(std::shared_ptr<MpiGroup> group, View<const T> in, View<T> out, std::span<const Block> blocks,
                       int tag)
      : MpiMeeting("reduce_scatter", std::move(group), scattered_reduction),
        in_(in),
        out_(out),
        blocks_(blocks),
        tag_(tag) {
    post_in(in);
  }

 private:
  void work() override {
    const Block own = blocks_[static_cast<std::size_t>(group_->rank)];
    combine_range<T>(
        {0, out_.size()}, ReduceOp::sum, Into::overwrite, group_->size,
        [this, own](int m) { return in_of<T>(m).sub(own); }, 1, [this](int) { return out_; });
    group_->for_peers([this](int r) { credit<T>(*group_, blocks_[static_cast<std::size_t>(r)].shape().size()); });
  }
  std::shared_ptr<MpiTask> by_messages() override {
    return reduce_scatter_by_messages<T>(group_, in_, out_, blocks_, tag_);
  }

  View<const T> in_;
  View<T> out_;
  std::span<const Block> blocks_;
  int tag_;
};

/// Each member adds up its chunk and pushes it to all while it is in cache. Only member r touches chunk r of any
/// buffer, so inputs may be outputs.
template <class T>
class MpiNodeAllReduce final : public MpiMeeting {
 public:
  MpiNodeAllReduce(std::shared_ptr<MpiGroup> group, View<const T> in, View<T> out, ReduceOp op, int tag)
      : MpiMeeting("all_reduce", std::move(group), sum_on_all), in_(in), out_(out), shown_(out), op_(op), tag_(tag) {
    post_in(in);
    post_.out = place(shown_, staged_out_);
    post_.out_ld = shown_.ld;
    post_.value = static_cast<index_t>(op);
  }

 private:
  void work() override {
    const int size = group_->size;
    combine_range<T>(
        balanced_chunk(in_.size(), size, group_->rank), op_, Into::overwrite, size,
        [this](int m) { return in_of<T>(m); }, size, [this](int m) { return out_of<T>(m); });
    group_->for_peers([this](int r) {
      const index_t chunk = balanced_chunk(in_.size(), group_->size, r).size();
      credit<T>(*group_, chunk);  // sent
      credit<T>(*group_, chunk);  // received
    });
  }
  void finish() override { copy_rectangle(View<const T>(shown_), out_); }
  [[nodiscard]] bool matches(const MeetingPost& theirs, int member) const override {
    return theirs.value == post_.value && MpiMeeting::matches(theirs, member);
  }
  std::shared_ptr<MpiTask> by_messages() override {
    shown_ = out_;
    return group_->world->make<MpiAllReduce<T>>(group_, in_, out_, op_, tag_);
  }

  View<const T> in_;
  View<T> out_;
  View<T> shown_;  // `out`, or a place in the window from which it is copied
  ReduceOp op_;
  int tag_;
  Memory staged_out_;
};

/// Each member copies the blocks of the others, beginning with the next one's.
template <class T>
class MpiNodeAllGather final : public MpiMeeting {
 public:
  MpiNodeAllGather(std::shared_ptr<MpiGroup> group, View<const T> in, View<T> out, std::span<const Block> blocks,
                   int tag)
      : MpiMeeting("all_gather", std::move(group), gathering), in_(in), out_(out), blocks_(blocks), tag_(tag) {
    post_in(in);
  }

 private:
  void work() override {
    copy_rectangle(in_, out_.sub(blocks_[static_cast<std::size_t>(group_->rank)]));
    group_->for_peers([this](int r) {
      const View<const T> block = in_of<T>(r);
      copy_rectangle(block, out_.sub(blocks_[static_cast<std::size_t>(r)]));
      credit<T>(*group_, block.size());
    });
  }
  [[nodiscard]] bool matches(const MeetingPost& theirs, int member) const override {
    return Shape{theirs.rows, theirs.cols} == blocks_[static_cast<std::size_t>(member)].shape();
  }
  std::shared_ptr<MpiTask> by_messages() override {
    return all_gather_by_messages<T>(group_, in_, out_, blocks_, tag_);
  }

  View<const T> in_;
  View<T> out_;
  std::span<const Block> blocks_;
  int tag_;
};

}  // namespace partita::detail
