// SPDX-License-Identifier: Apache-2.0
// Sums over MPI ranks in rank order: the contributions travel, one rank adds them, and the result is passed on.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "partita/comm/arguments.hpp"
#include "partita/comm/mpi/exchange.hpp"

namespace partita::detail {

/// Contributions are taken in slices of this many elements, so that the memory for them does not grow with their size.
template <class T>
[[nodiscard]] index_t sum_slice(const MpiWorld& world) noexcept {
  return std::min(world.chunk(sizeof(T)), (index_t{1} << 20) / static_cast<index_t>(sizeof(T)));
}

/// Sends elements [begin, begin + count) of a rectangle to the rank that adds them.
template <class T>
void send_contribution(MpiTransfers& transfers, MpiGroup& group, View<const T> in, Range range, int to, int tag,
                       MpiBuffers<T>& packed) {
  const index_t count = range.size();
  if (count <= 0) return;
  const T* data = in.data;
  if (in.contiguous()) {
    data += range.begin;
  } else {
    T* copy = packed.emplace_back(*group.world, count).data();
    pack_range(in, range.begin, count, copy);
    data = copy;
  }
  transfers.send(data, count, to, tag, sum_slice<T>(*group.world));
  credit<T>(group, count);
}

/// result[0, n) = [result +] contribution 0 + contribution 1 + …, of which this rank's own is elements [begin, begin +
/// n) of `in`. Two slices are under way at once. The additions are combine_range's, as they
/// are for threads, so that the bits are the same.
template <class T>
class RankOrderedSum {
 public:
  RankOrderedSum(MpiGroup& group, View<const T> in, Range own, T* result, ReduceOp op, Into into, int tag)
      : group_(&group),
        in_(in),
        own_(own),
        result_(result),
        op_(op),
        into_(into),
        tag_(tag),
        slice_(std::max<index_t>(1, std::min(own.size(), sum_slice<T>(*group.world)))),
        flights_{Flight(group, slice_), Flight(group, own.size() > slice_ ? slice_ : 0)} {
    post(0);
    post(slice_);
  }

  [[nodiscard]] bool advance(const char* name) {
    while (next_ < own_.size()) {
      Flight& flight = flights_[static_cast<std::size_t>(next_ / slice_ % 2)];
      if (!flight.transfers.test(name)) return false;
      add(flight);
      const index_t after = next_ + 2 * slice_;
      next_ += slice_;
      post(after);
    }
    return true;
  }

 private:
  struct Flight {
    Flight(MpiGroup& group, index_t slice) : transfers(group), memory(*group.world, slice * group.size) {}
    MpiTransfers transfers;
    MpiBuffer<T> memory;  // a slice of each rank
  };

  [[nodiscard]] index_t length(index_t begin) const noexcept { return std::min(slice_, own_.size() - begin); }

  void post(index_t begin) {
    if (begin >= own_.size()) return;
    Flight& flight = flights_[static_cast<std::size_t>(begin / slice_ % 2)];
    for (int r = 0; r < group_->size; ++r) {
      if (r == group_->rank) continue;
      flight.transfers.receive(flight.memory.data() + r * slice_, length(begin), r, tag_, slice_);
    }
  }

  void add(Flight& flight) {
    const index_t n = length(next_);
    T* memory = flight.memory.data();
    T* copy = memory + group_->rank * slice_;
    const T* own = in_.contiguous() ? in_.data + own_.begin + next_ : copy;
    if (own == copy) pack_range(in_, own_.begin + next_, n, copy);
    T* to = result_ + next_;
    const auto contribution = [&](int r) {
      return View<const T>(r == group_->rank ? own : memory + r * slice_, 1, n, n);
    };
    combine_range<T>({0, n}, op_, into_, group_->size, contribution, 1, [&](int) { return row_view(to, n); });
  }

  MpiGroup* group_;
  View<const T> in_;
  Range own_;
  T* result_;
  ReduceOp op_;
  Into into_;
  int tag_;
  index_t slice_;
  index_t next_ = 0;
  std::array<Flight, 2> flights_;
};

/// `out` = [out +] the sum of the members' rectangles. `share(r)`: which elements of `in` rank r adds up. Serves
/// reduce, where the root adds all, and reduce_scatter, where each adds its own block.
template <class T>
class MpiReduce final : public MpiTask {
 public:
  MpiReduce(const char* task_name, std::shared_ptr<MpiGroup> group, int tag)
      : MpiTask(task_name),
        group_(std::move(group)),
        transfers_(*group_),
        tag_(tag),
        packed_(group_->world->pooled<MpiBuffer<T>>()) {}

  /// What rank `to` adds up of this rank's data.
  void give(View<const T> in, int to) { send_contribution(transfers_, *group_, in, {0, in.size()}, to, tag_, packed_); }
  /// What this rank adds up itself.
  void take(View<const T> in, View<T> out, Into into) {
    if (out.empty()) return;
    out_ = out;
    T* result = out.data;
    if (!out.contiguous()) {
      result_ = MpiBuffer<T>(*group_->world, out.size());
      result = result_.data();
      if (into == Into::accumulate) pack_range(View<const T>(out), 0, out.size(), result);
    }
    sum_.emplace(*group_, in, Range{0, in.size()}, result, ReduceOp::sum, into, tag_);
  }

  bool advance() override {
    if (sum_) {
      if (!sum_->advance(name)) return false;
      if (!out_.contiguous()) unpack_range<T>(result_.data(), out_, 0, out_.size());
      sum_.reset();
    }
    return transfers_.test(name);
  }

 private:
  std::shared_ptr<MpiGroup> group_;
  MpiTransfers transfers_;
  int tag_;
  View<T> out_;
  MpiBuffer<T> result_;
  MpiBuffers<T> packed_;
  std::optional<RankOrderedSum<T>> sum_;
};

/// Each rank adds up its chunk of the elements and sends it to all others: twice the volume of what it does not own.
///
///   chunk r of each rank's `in`  ---->  rank r adds  ---->  chunk r of each rank's `out`
template <class T>
class MpiAllReduce final : public MpiTask {
 public:
  MpiAllReduce(std::shared_ptr<MpiGroup> group, View<const T> in, View<T> out, ReduceOp op, int tag)
      : MpiTask("all_reduce"),
        group_(std::move(group)),
        transfers_(*group_),
        out_(out),
        tag_(tag),
        packed_(group_->world->pooled<MpiBuffer<T>>()) {
    for (int r = 0; r < group_->size; ++r) {
      if (r != group_->rank) send_contribution(transfers_, *group_, in, chunk(r), r, tag_, packed_);
    }
    if (!out.contiguous()) result_ = MpiBuffer<T>(*group_->world, out.size());
    sum_.emplace(*group_, in, chunk(group_->rank), at(group_->rank), op, Into::overwrite, tag_);
  }

  bool advance() override {
    if (sum_) {
      // Contributions have left before `out`, which may be `in`, is received into.
      if (!sum_->advance(name) || !transfers_.test(name)) return false;
      sum_.reset();
      pass_on();
    }
    if (!transfers_.test(name)) return false;
    if (!out_.contiguous()) unpack_range<T>(result_.data(), out_, 0, out_.size());
    for (int r = 0; r < group_->size; ++r) {
      if (r != group_->rank) credit<T>(*group_, chunk(r).size());
    }
    return true;
  }

 private:
  [[nodiscard]] Range chunk(int r) const noexcept { return balanced_chunk(out_.size(), group_->size, r); }
  [[nodiscard]] T* at(int r) const noexcept {
    return (out_.contiguous() ? out_.data : result_.data()) + chunk(r).begin;
  }

  void pass_on() {
    const index_t most = group_->world->chunk(sizeof(T));
    const int tag = tag_ + 1;
    for (int r = 0; r < group_->size; ++r) {
      if (r != group_->rank) transfers_.receive(at(r), chunk(r).size(), r, tag, most);
    }
    for (int r = 0; r < group_->size; ++r) {
      const int own = group_->rank;
      if (r != own) transfers_.send<T>(at(own), chunk(own).size(), r, tag, most);
    }
  }

  std::shared_ptr<MpiGroup> group_;
  MpiTransfers transfers_;
  View<T> out_;
  int tag_;
  MpiBuffer<T> result_;
  MpiBuffers<T> packed_;
  std::optional<RankOrderedSum<T>> sum_;
};

/// The operations by messages, begun.
template <class T>
[[nodiscard]] std::shared_ptr<MpiTask> reduce_by_messages(const std::shared_ptr<MpiGroup>& group, View<const T> in,
                                                          View<T> out, int root, Into into, int tag) {
  auto task = group->world->make<MpiReduce<T>>("reduce", group, tag);
  if (group->rank == root) {
    task->take(in, out, into);
  } else {
    task->give(in, root);
  }
  return task;
}
template <class T>
[[nodiscard]] std::shared_ptr<MpiTask> reduce_scatter_by_messages(const std::shared_ptr<MpiGroup>& group,
                                                                  View<const T> in, View<T> out,
                                                                  std::span<const Block> blocks, int tag) {
  auto task = group->world->make<MpiReduce<T>>("reduce_scatter", group, tag);
  group->for_peers([&](int r) { task->give(in.sub(blocks[static_cast<std::size_t>(r)]), r); });
  task->take(in.sub(blocks[static_cast<std::size_t>(group->rank)]), out, Into::overwrite);
  return task;
}
template <class T>
[[nodiscard]] std::shared_ptr<MpiTask> all_gather_by_messages(const std::shared_ptr<MpiGroup>& group, View<const T> in,
                                                              View<T> out, std::span<const Block> blocks, int tag) {
  auto task = group->world->make<MpiExchange<T>>("all_gather", group, tag);
  group->for_peers([&](int r) { task->receive(out.sub(blocks[static_cast<std::size_t>(r)]), r); });
  const T* data = task->packed(in);
  group->for_peers([&](int r) { task->send_packed(data, in.size(), r); });
  copy_rectangle(in, out.sub(blocks[static_cast<std::size_t>(group->rank)]));
  return task;
}

}  // namespace partita::detail
