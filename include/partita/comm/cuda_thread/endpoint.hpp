// SPDX-License-Identifier: Apache-2.0
// One rank's end of a communicator on a shared device: the meetings of hosts that order the work of streams.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partita/comm/arguments.hpp"
#include "partita/comm/cuda_thread/rank.hpp"
#include "partita/comm/thread.hpp"
#include "partita/cuda/host_order.hpp"
#include "partita/trace/event.hpp"

namespace partita::detail {

/// Meetings of hosts are no operations of their own for whoever records events.
class QuietScope {
 public:
  QuietScope() noexcept : sink_(std::exchange(event_sink, nullptr)) {}
  ~QuietScope() { event_sink = sink_; }
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  EventSink* sink_;
};

class CudaEndpoint {
 public:
  /// Collective.
  CudaEndpoint(ThreadComm host_comm, std::shared_ptr<CudaRank> rank) : host(std::move(host_comm)), me(std::move(rank)) {
    const auto ranks = static_cast<std::size_t>(host.size());
    posts_.resize(ranks);
    for (int r = 0; r < host.size(); ++r) places_.push_back({{0, 1}, {r, r + 1}});
    {
      const std::lock_guard lock(me->launch->mutex);
      for (CudaPost*& post : own_) post = &me->launch->posts.emplace_back();
    }
    const int line = timeline().line();
    lines_.resize(ranks);
    const QuietScope quiet;
    host.all_gather<int>(row_view(&line, 1), row_view(lines_.data(), index_t{size()}), std::span<const Block>(places_))
        .wait();
  }

  [[nodiscard]] CudaTimeline& timeline() const noexcept { return *me->timeline; }
  [[nodiscard]] int rank() const noexcept { return host.rank(); }
  [[nodiscard]] int size() const noexcept { return host.size(); }

  /// The post of the next collective, emptied.
  CudaPost& begin(CudaCall call, const char* name, const void* type, int root) {
    CudaPost& post = *own_[++begun_ % 2];
    post.call = call;
    post.name = name;
    post.type = type;
    post.root = root;
    post.op = ReduceOp::sum;
    post.in = post.out = {};
    post.sends.clear();
    post.ready = {};
    post.done = {};
    own.clear();
    lent.clear();
    return post;
  }
  [[nodiscard]] const CudaPost& post_of(int member) const noexcept { return *posts_[static_cast<std::size_t>(member)]; }

  /// What this rank's own stream touches of its memory in the operation, and what peers' streams touch of it.
  std::vector<CudaAccess> own;
  struct Lent {
    CudaAccess access;
    int member = -1;  // who touches it; -1: any
  };
  std::vector<Lent> lent;

  /// Runs the collective that was begun:
  ///
  ///   host    first meeting: all show their buffers  |  work                          |  second meeting
  ///   stream  what others may touch is ready         |  waits for peers, copies, sums |  (others wait where they must)
  ///
  /// work() gives the stream what it has to do with peers' memory, after wait_for(peer) for each of them, and says
  /// whether there was any; owe(peer, point) notes what that peer's stream touches here until the point.
  template <class Work, class Owe>
  void run(Work work, Owe owe) {
    guarded([&] {
      CudaPost& post = *own_[begun_ % 2];
      timeline().before_communication(own);
      if (!lent.empty()) {
        accesses_.clear();
        for (const Lent& part : lent) {
          const int line = part.member < 0 ? -1 : lines_[static_cast<std::size_t>(part.member)];
          timeline().before_communication(std::span(&part.access, 1), line);
          accesses_.push_back(part.access);
        }
        post.ready = timeline().ready(accesses_);
      }
      meet(post);
      if (work()) post.done = timeline().after_communication(own);
      meet_again();
      for (int member = 0; member < size(); ++member) {
        const CudaPoint& done = post_of(member).done;
        if (member != rank() && done.number > 0) owe(member, done);
      }
    });
  }

  void wait_for(int member) {
    if (member != rank()) timeline().wait_for_peer(post_of(member).ready);
  }

  /// Runs f(). Where it throws, peers cannot go on, and streams may be left in this rank's memory.
  template <class F>
  void guarded(F f) {
    try {
      f();
    } catch (const std::exception& error) {
      me->launch->failed = true;
      host.abort(error.what());
      throw;
    } catch (...) {
      me->launch->failed = true;
      host.abort("an exception of unknown type");
      throw;
    }
  }

  void check_posted_shape(int member, const Rectangle& found, Shape wanted) const {
    const Shape shape{found.rows, found.cols};
    if (shape == wanted) return;
    throw ShapeError(std::string("ShapeError: ") + post_of(member).name + ": rank " + std::to_string(member) + " has " +
                     to_string(shape) + ", rank " + std::to_string(rank()) + " expects " + to_string(wanted));
  }

  ThreadComm host;
  std::shared_ptr<CudaRank> me;
  std::vector<CudaLoan*> loans;  // that are not drained
  std::vector<CudaLoan*> spare_loans;

 private:
  void meet(const CudaPost& post) {
    const CudaPost* mine = &post;
    const QuietScope quiet;
    tell_order(&post);
    host.all_gather<const CudaPost*>(row_view<const CudaPost* const>(&mine, 1),
                                     row_view(posts_.data(), index_t{size()}), std::span<const Block>(places_))
        .wait();
    for (int member = 0; member < size(); ++member) {
      const CudaPost& other = post_of(member);
      learn_order(&other);
      if (other.call == post.call && other.type == post.type && other.root == post.root && other.op == post.op)
        continue;
      const auto call = [](const CudaPost& p) {
        return std::string(p.name) + (p.root < 0 ? "" : " with root " + std::to_string(p.root)) +
               (p.op == ReduceOp::max ? " of maxima" : "");
      };
      throw ArgumentError("ArgumentError: the ranks call different operations: rank " + std::to_string(member) + " " +
                          call(other) + ", rank " + std::to_string(rank()) + " " + call(post) +
                          (other.call == post.call && other.root == post.root && other.op == post.op
                               ? ", of another element type"
                               : ""));
    }
  }
  void meet_again() {
    const QuietScope quiet;
    tell_order(own_[begun_ % 2]);
    host.barrier();
    for (const CudaPost* post : posts_) learn_order(post);
  }

  std::vector<const CudaPost*> posts_;
  std::vector<Block> places_;
  std::vector<int> lines_;  // of the members' streams
  std::vector<CudaAccess> accesses_;
  CudaPost* own_[2] = {};
  std::size_t begun_ = 0;
};

}  // namespace partita::detail
