// SPDX-License-Identifier: Apache-2.0
// What all ranks of one launch share: who is parked, who has failed or left, and who touches whose memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "partita/base/error.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/comm/thread/cores.hpp"

namespace partita::detail {

inline constexpr std::size_t cache_line = 64;

struct Task;
struct Operation;
struct Endpoint;
struct BlockHeader;

/// What this rank reads in the block of another.
struct Loaned {
  Operation* operation = nullptr;
  int owner = 0;
  friend bool operator==(const Loaned&, const Loaned&) = default;
};

/// What this rank has lent and some peer may not have released yet: a panel, or its block.
struct Loan {
  std::shared_ptr<Endpoint> endpoint;
  std::uint64_t ticket = 0;
};

enum class Parked : int { no, for_operations, for_slot, for_offer };

/// Local work of a rank that waits, for whichever thread has a core to spare; see help.hpp.
///
///   none -> open -> taken -> done -> none      its rank opens it, and takes it back when it is open or done
///            ^--------'                        taken, but not ready, or not all of it run
struct alignas(cache_line) Offer {
  enum class State : int { none, open, taken, done };
  std::atomic<State> state{State::none};
  // Written by its rank while the state is none.
  bool (*ready)(void* work) = nullptr;  // whether run() can be called now
  bool (*run)(void* work) = nullptr;    // does a piece, and waits for nobody; true after the last
  void* work = nullptr;
  std::exception_ptr error;  // of run(), once done
};

/// One rank. Its offer and the first part are for all ranks, the rest for the rank's own thread only.
struct alignas(cache_line) RankState {
  RankState() {
    constexpr std::size_t most = 256;  // beyond what a product has open, which depends on how late peers are
    begun.reserve(most);
    held.reserve(most);
    lent.reserve(most);
  }

  std::mutex mutex;
  std::condition_variable wake;
  alignas(cache_line) std::atomic<Parked> parked{Parked::no};
  std::atomic<bool> gone{false};
  alignas(cache_line) std::atomic<bool> touching{false};
  alignas(cache_line) std::atomic<int> borrowed{0};  // panels of this rank that peers are reading
  alignas(cache_line) std::atomic<index_t> messages{0};
  std::atomic<index_t> elements{0};
  std::atomic<index_t> bytes{0};

  alignas(cache_line) std::thread::id thread;
  std::vector<Task*> begun;  // operations to advance whenever this rank waits
  std::vector<Loaned> held;  // panels of others that this rank is reading
  std::vector<Loan> lent;
  BlockHeader* quarantine = nullptr;  // under World's mutex

  Offer offer;
};

/// Who may touch what when a rank fails.
///
///   rank 0's memory  <---- copies, sums (inside a Touch) ----  rank 1
///         ^                                                      |
///         '----------- a panel, read in place (borrowed) --------'
///
/// A rank enters a Touch before it reads or writes memory of others: it raises `touching`, then looks at `failed`, and
/// leaves with PeerFailed if that is set. A rank that leaves an operation early first sets `failed`, then waits until
/// no other rank is touching: afterwards nobody will, and its buffers may die. That is a copy's time, or a local
/// product's.
/// A panel counts in its owner's `borrowed` from the moment its reader may see it until it is released; the owner
/// waits for that count too. Memory that `allocate` gave is, besides, kept until the launch is joined if it is freed
/// while a panel is lent or after a failure.
class World {
 public:
  using Clock = std::chrono::steady_clock;

  /// `bound`: each rank is bound to a core, in turn.
  World(int ranks, std::chrono::milliseconds deadline, bool bound = false)
      : ranks_(static_cast<std::size_t>(ranks)),
        deadline_(deadline),
        crowded_(ranks > usable_cores()),
        turns_(bound && crowded_ ? static_cast<std::size_t>(usable_cores()) : 0) {}
  ~World();  // memory.hpp
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] RankState& rank(int r) noexcept { return ranks_[static_cast<std::size_t>(r)]; }
  [[nodiscard]] std::vector<RankState>& ranks() noexcept { return ranks_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return deadline_; }
  /// More ranks than cores: waiting ranks must give way.
  [[nodiscard]] bool crowded() const noexcept { return crowded_; }

  /// Where ranks share a core: the right to compute on rank r's, held by one of them at a time, so that the system does
  /// not switch between two products and empty their caches. Whoever holds it must wait for nobody.
  [[nodiscard]] std::unique_lock<std::mutex> turn(int r) {
    if (turns_.empty()) return {};
    Turn& turn = turn_of(r);
    turn.awaited.fetch_add(1);
    std::unique_lock lock(turn.mutex);
    turn.awaited.fetch_sub(1);
    return lock;
  }
  /// Likewise if nobody holds it, or waits for it. Pre: shares_cores().
  [[nodiscard]] std::unique_lock<std::mutex> try_turn(int r) {
    Turn& turn = turn_of(r);
    if (turn.awaited.load() > 0) return {};
    return std::unique_lock(turn.mutex, std::try_to_lock);
  }
  [[nodiscard]] bool shares_cores() const noexcept { return !turns_.empty(); }
  /// The cores among which ranks are dealt in turn. Pre: shares_cores().
  [[nodiscard]] int cores() const noexcept { return static_cast<int>(turns_.size()); }

  [[nodiscard]] bool failed() const noexcept { return failed_.load(); }
  [[nodiscard]] bool anybody_gone() const noexcept { return departures_.load() > 0; }
  [[nodiscard]] bool gone(int r) noexcept { return rank(r).gone.load(); }
  [[nodiscard]] bool joined() const noexcept { return joined_.load(); }
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

  /// The rank that failed first, or -1.
  [[nodiscard]] int origin() {
    const std::lock_guard lock(mutex_);
    return origin_;
  }
  [[noreturn]] void throw_failed() {
    const std::lock_guard lock(mutex_);
    throw PeerFailed(origin_, reason_);
  }

  /// The first failure is kept; all ranks leave their waits.
  void fail(int origin, std::string_view reason, std::string_view operation = {}) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (origin_ >= 0) return;
      origin_ = origin;
      try {
        reason_.append(reason).append(operation);
      } catch (...) {
        reason_.clear();
      }
      failed_.store(true);
    }
    wake_all();
  }

  /// Rank r has left its body: it will deliver nothing more.
  void depart(int r) noexcept {
    rank(r).gone.store(true);
    departures_.fetch_add(1);
    wake_all();
  }

  /// Wakes rank r if it is parked, for whatever reason or for this one.
  void unpark(int r, Parked only_if = Parked::no) noexcept {
    RankState& state = rank(r);
    const Parked parked = state.parked.load();
    if (parked == Parked::no || (only_if != Parked::no && parked != only_if)) return;
    {
      const std::lock_guard lock(state.mutex);
      state.parked.store(Parked::no);
    }
    state.wake.notify_one();
  }

  void wake_all() noexcept {
    for (int r = 0; r < size(); ++r) unpark(r);
  }

  /// Elements that moved, credited to rank r by whoever touched them.
  void credit(int r, index_t messages, index_t elements, std::size_t element_bytes) noexcept {
    if (elements <= 0) return;
    RankState& state = rank(r);
    state.messages.fetch_add(messages, std::memory_order_relaxed);
    state.elements.fetch_add(elements, std::memory_order_relaxed);
    state.bytes.fetch_add(elements * static_cast<index_t>(element_bytes), std::memory_order_relaxed);
  }

  void reclaim(int r) noexcept;  // memory.hpp: frees what rank r freed too early
  void join() noexcept {
    joined_.store(true);
    for (int r = 0; r < size(); ++r) reclaim(r);
  }

 private:
  struct alignas(cache_line) Turn {
    std::mutex mutex;
    std::atomic<int> awaited{0};
  };
  [[nodiscard]] Turn& turn_of(int r) noexcept { return turns_[static_cast<std::size_t>(r) % turns_.size()]; }

  std::vector<RankState> ranks_;
  std::chrono::milliseconds deadline_;
  bool crowded_;
  std::vector<Turn> turns_;
  std::atomic<bool> failed_{false};
  std::atomic<int> departures_{0};
  std::atomic<bool> joined_{false};
  std::mutex mutex_;
  int origin_ = -1;
  std::string reason_;
};

/// The right to touch memory of other ranks, given up at the end of the scope; PeerFailed where the world has failed.
class Touch {
 public:
  Touch(World& world, RankState& me) : me_(me) {
    me_.touching.store(true);
    if (world.failed()) {
      me_.touching.store(false);
      world.throw_failed();
    }
  }
  ~Touch() { me_.touching.store(false); }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  RankState& me_;
};

}  // namespace partita::detail
