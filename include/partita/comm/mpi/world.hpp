// SPDX-License-Identifier: Apache-2.0
// What one MPI rank shares among all communicators of a world: its node, what it has begun, and how it waits.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "partita/base/pool.hpp"
#include "partita/comm/mpi/arena.hpp"
#include "partita/comm/mpi/notice.hpp"
#include "partita/comm/mpi/options.hpp"
#include "partita/comm/mpi/patience.hpp"
#include "partita/comm/mpi/scratch.hpp"

namespace partita::detail {

/// An operation under way. Whoever waits advances all of them, so that operations of several phases go on.
class MpiTask {
 public:
  explicit MpiTask(const char* task_name) : name(task_name) {}
  MpiTask(const MpiTask&) = delete;
  MpiTask& operator=(const MpiTask&) = delete;
  virtual ~MpiTask() = default;
  /// True once it is complete.
  virtual bool advance() = 0;
  /// Whether it goes on by MPI's calls; else a peer of the node rings when there is something to do.
  [[nodiscard]] virtual bool uses_messages() const noexcept { return true; }

  const char* name;
  bool done = false;
};

/// One rank of the communicator that the user gave, and of all that was split from it. After a failure every call
/// throws PeerFailed, nothing collective is called any more, and what MPI may still write to is never freed.
class MpiWorld {
 public:
  using Clock = std::chrono::steady_clock;

  /// Collective over `user`. A rank that never comes costs the others the deadline.
  MpiWorld(MPI_Comm user, const MpiOptions& options) : options_(options) {
    begun_.reserve(256);  // beyond what a product begins
    comm_ = mpi_own(duplicate(user));
    mpi_check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    notices_.open(comm_, rank_, size_);
    await_all("MpiComm");
    MPI_Comm made = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &made), "MPI_Comm_split_type");
    node_ = mpi_own(made);
    int neighbours = 0;
    mpi_check(MPI_Comm_size(node_, &neighbours), "MPI_Comm_size");
    ranks_per_core_ = (neighbours + cores_of(node_) - 1) / cores_of(node_);
    if (options.ranks_per_node > 0) {
      int place_on_node = 0;
      mpi_check(MPI_Comm_rank(node_, &place_on_node), "MPI_Comm_rank");
      mpi_check(MPI_Comm_split(node_, place_on_node / options.ranks_per_node, rank_, &made), "MPI_Comm_split");
      mpi_free(node_);
      node_ = mpi_own(made);
      mpi_check(MPI_Comm_size(node_, &neighbours), "MPI_Comm_size");
    }
    std::array<int, 2> place{rank_, 0};  // the lowest rank of the node, and the own rank in it
    mpi_check(MPI_Bcast(&place[0], 1, MPI_INT, 0, node_), "MPI_Bcast");
    mpi_check(MPI_Comm_rank(node_, &place[1]), "MPI_Comm_rank");
    places_.resize(static_cast<std::size_t>(size_));
    mpi_check(MPI_Allgather(place.data(), 2, MPI_INT, places_.data(), 2, MPI_INT, comm_), "MPI_Allgather");
    arena_ = std::make_shared<MpiArena>(node_, options.arena);
    if (arena_->ready()) bell_ = &arena_->bell(place[1]);
    int shares = options.arena > 0 && (arena_->ready() || neighbours == 1) ? 1 : 0;
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
    shares_ = shares != 0;
    int found = 0;
    int* bound = nullptr;
    mpi_check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&bound), &found), "MPI_Comm_get_attr");
    if (found != 0) last_tag_ = *bound;
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld() {
    close();
    for (auto& task : begun_) keep(std::move(task));
  }

  /// Collective: frees the window and the communicators. Does nothing after a failure, while an exception unwinds, or
  /// once MPI is finalised.
  void close() noexcept {
    if (comm_ == MPI_COMM_NULL || failed() || std::uncaught_exceptions() > 0 || !mpi_usable()) return;
    try {  // a slower peer keeps what it uses, and one that never comes holds nobody for ever
      await_all("close");
    } catch (...) {
      return;
    }
    notices_.close();
    retired_boards.clear();
    bell_ = nullptr;
    arena_->close();
    mpi_free(node_);
    mpi_free(comm_);
  }

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// A number for the node of a rank, and its rank in that node.
  [[nodiscard]] int node_of(int rank) const noexcept { return places_[static_cast<std::size_t>(rank)][0]; }
  [[nodiscard]] int node_rank_of(int rank) const noexcept { return places_[static_cast<std::size_t>(rank)][1]; }
  [[nodiscard]] const std::shared_ptr<MpiArena>& arena() const noexcept { return arena_; }
  /// Whether ranks of a node share memory; the same on all ranks.
  [[nodiscard]] bool shares_memory() const noexcept { return shares_; }
  /// The most elements of `size` bytes in one message.
  [[nodiscard]] index_t chunk(std::size_t size) const noexcept {
    return std::max<index_t>(1, std::min(options_.chunk, (index_t{1} << 30) / static_cast<index_t>(size)));
  }

  /// Tags: the lower half is the user's, the upper half our operations', two phases each.
  [[nodiscard]] int last_user_tag() const noexcept { return last_tag_ / 2; }
  [[nodiscard]] int operation_tag(std::uint64_t number, int phase) const noexcept {
    const auto room = static_cast<std::uint64_t>(last_tag_ - last_user_tag() - 1) / 2;
    return last_user_tag() + 1 + 2 * static_cast<int>(number % room) + phase;
  }

  [[nodiscard]] bool failed() const noexcept { return notices_.failed(); }
  [[nodiscard]] int origin() const noexcept { return notices_.origin(); }
  [[nodiscard]] const char* reason() const noexcept { return notices_.reason(); }
  void check_alive() const { notices_.throw_if_failed(); }
  void fail(std::string_view reason) noexcept {
    if (failed()) return;
    notices_.fail(reason);
    if (arena_ == nullptr) return;
    arena_->freeze();
    arena_->ring_all();  // sleepers look for the notice
  }
  void listen() noexcept { notices_.listen(); }

  /// A task in memory that is used again.
  template <class Task, class... Args>
  [[nodiscard]] std::shared_ptr<Task> make(Args&&... args) {
    return std::allocate_shared<Task>(pooled<Task>(), std::forward<Args>(args)...);
  }
  template <class T>
  [[nodiscard]] Pooled<T> pooled() const noexcept {
    return Pooled<T>(pool_);
  }
  [[nodiscard]] RecordPool& pool() const noexcept { return *pool_; }
  /// Wakes a rank of this node, which may wait for what this one has just changed in shared memory.
  void ring(int rank) const noexcept { arena_->bell(node_rank_of(rank)).ring(); }

  /// Begins an operation. What it finds wrong fails the world.
  void begin(std::shared_ptr<MpiTask> task) {
    try {  // what was begun before goes on too: so panels move on while others are multiplied
      poke();
      task->done = task->advance();
    } catch (const std::exception& error) {
      fail(error.what());
      keep(std::move(task));
      throw;
    }
    if (!task->done) begun_.push_back(std::move(task));
  }
  /// Never frees what MPI may still write to.
  static void keep(std::shared_ptr<MpiTask> task) noexcept {
    auto* kept = new (std::nothrow) std::shared_ptr<MpiTask>(std::move(task));
    static_cast<void>(kept);
  }

  /// Returns when ready() holds. All that this rank has begun goes on meanwhile. Throws PeerFailed after a notice,
  /// TimeoutError at the deadline, and what an operation finds wrong; the latter two fail the world.
  template <class Ready>
  void wait_until(const char* name, Ready ready) {
    check_alive();
    try {
      if (ready()) return;
      MpiPatience patience(options_.deadline, ranks_per_core_);
      for (;;) {
        const std::uint32_t heard = bell_ == nullptr ? 0 : bell_->rung.load();
        const bool by_messages = progress();
        if (ready()) return;
        if (patience.wants_to_listen()) {
          listen();
          check_alive();
        }
        // What is waited for may be no task of ours, and come by MPI.
        patience.pause(name, by_messages || begun_.empty() ? nullptr : bell_, heard);
      }
    } catch (const std::exception& error) {
      fail(error.what());  // nothing where a peer has failed before
      for (auto& task : begun_) keep(std::move(task));
      begun_.clear();
      throw;
    }
  }
  /// All that this rank has begun goes on.
  void poke() { static_cast<void>(progress()); }

  /// Returns when all ranks of the world have entered, and none has given up waiting: a collective of MPI that blocks
  /// may follow. A rank that comes too late finds that its peers have not met it twice.
  void await_all(const char* name) {
    for (int round = 0; round < 2; ++round) {
      MPI_Request arrival = MPI_REQUEST_NULL;  // a barrier has no buffer that could die
      mpi_check(MPI_Ibarrier(comm_, &arrival), "MPI_Ibarrier");
      wait_until(name, [&arrival] { return test(arrival); });
    }
  }

  /// A communicator of the same ranks, for the caller to own. Collective; throws TimeoutError at the deadline.
  [[nodiscard]] MPI_Comm duplicate(MPI_Comm comm) {
    struct Pending {
      MPI_Comm made = MPI_COMM_NULL;
      MPI_Request request = MPI_REQUEST_NULL;
    };
    auto pending = std::make_unique<Pending>();
    mpi_check(MPI_Comm_idup(comm, &pending->made, &pending->request), "MPI_Comm_idup");
    auto* const waiting = pending.release();  // not freed after an error: MPI may still write to it
    wait_until("MpiComm", [waiting] { return test(waiting->request); });
    pending.reset(waiting);
    return pending->made;
  }

  [[nodiscard]] static bool test(MPI_Request& request) {
    int done = 0;
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  Traffic traffic;
  MpiStatistics statistics;
  MpiScratch scratch;

  /// Memory of panel boards that some reader of may not have left yet (group.hpp).
  struct RetiredBoard {
    Memory memory;
    std::uint64_t members;
  };
  std::vector<RetiredBoard> retired_boards;

 private:
  /// In the order in which operations were begun: the slots of panels are given out in it. Whether one of those that
  /// are left needs MPI's calls.
  bool progress() {
    std::size_t kept = 0;
    bool by_messages = false;
    for (std::size_t at = 0; at < begun_.size(); ++at) {
      if (begun_[at]->done || (begun_[at]->done = begun_[at]->advance())) continue;
      by_messages = by_messages || begun_[at]->uses_messages();
      if (kept != at) std::swap(begun_[kept], begun_[at]);
      ++kept;
    }
    begun_.resize(kept);
    return by_messages;
  }

  /// Cores that the ranks of the node may use, all together.
  [[nodiscard]] static int cores_of(MPI_Comm node) {
#if defined(__linux__)
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
      mpi_check(MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof(cores), MPI_BYTE, MPI_BOR, node), "MPI_Allreduce");
      return std::max(1, CPU_COUNT(&cores));
    }
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  MpiOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Comm node_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int last_tag_ = 32767;
  int ranks_per_core_ = 1;  // rounded up
  bool shares_ = false;
  std::vector<std::array<int, 2>> places_;
  std::shared_ptr<RecordPool> pool_ = std::make_shared<RecordPool>();
  std::shared_ptr<MpiArena> arena_;
  MpiBell* bell_ = nullptr;  // of this rank; null where it shares no memory
  std::vector<std::shared_ptr<MpiTask>> begun_;
  MpiNotices notices_;
};

}  // namespace partita::detail
