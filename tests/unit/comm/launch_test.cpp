// SPDX-License-Identifier: Apache-2.0
// launch_threads: the first error comes home, nobody waits for ever, and no memory is read after its time.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "partita/comm/launch.hpp"
#include "partita/trace/event.hpp"

namespace partita {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Throws before the k-th operation of its thread.
class ThrowBefore final : public EventSink {
 public:
  explicit ThrowBefore(int k) : left_(k) {}
  void record(const Event&) override {
    if (left_-- == 0) throw std::runtime_error("boom");
  }

 private:
  int left_;
};

/// One of each collective, 8 operations in all, with buffers that die when it is left.
void mixed_round(ThreadComm& comm) {
  const int size = comm.size();
  std::vector<double> x(300, comm.rank());
  std::vector<double> y(300);
  std::vector<Block> blocks;
  for (int r = 0; r < size; ++r) blocks.push_back({{0, 1}, {r * 10, r * 10 + 10}});
  const View<double> in = row_view(x.data(), 300);
  const View<double> out = row_view(y.data(), 300);
  const Block own = blocks[static_cast<std::size_t>(comm.rank())];
  auto first = comm.all_reduce(in, out);
  const Memory memory = comm.allocate(300 * sizeof(double));
  auto* lent = reinterpret_cast<double*>(memory.get());
  std::fill_n(lent, 300, 1.0);
  auto panel = comm.broadcast_panel(row_view(lent, 300), out, 1);
  first.wait();
  panel.wait();
  REQUIRE(y[7] == size * (size - 1) / 2.0);
  const View<const double> seen = panel.view();
  REQUIRE(std::accumulate(seen.data, seen.data + 300, 0.0) == 300.0);
  panel.release();
  comm.broadcast(out, 0).wait();
  comm.reduce(in, out, size - 1).wait();
  comm.barrier();
  comm.all_gather(in.sub(own), out, blocks).wait();
  comm.reduce_scatter(in, out.sub(own), blocks).wait();
  static_cast<void>(comm.agree(1));
  comm.drain();
}

TEST_CASE("F05: when a rank throws between two collectives, its peers leave and the launch throws its error") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (int k = 0; k <= 20; ++k) {
      constexpr int ranks = 4;
      std::array<int, ranks> left_with{-1, -1, -1, -1};
      std::atomic<int> running{0};
      std::atomic<Clock::rep> thrown{0};
      Clock::duration latest{};
      const auto body = [&](ThreadComm& comm) {
        running.fetch_add(1);
        ThrowBefore sink(comm.rank() == 2 ? k : -1);
        const SinkScope scope(sink);
        try {
          for (int round = 0; round < 4; ++round) mixed_round(comm);
        } catch (const PeerFailed& error) {
          left_with[static_cast<std::size_t>(comm.rank())] = error.origin;
          running.fetch_sub(1);
          throw;
        } catch (const std::runtime_error&) {
          thrown.store(Clock::now().time_since_epoch().count());
          running.fetch_sub(1);
          throw;
        }
        running.fetch_sub(1);
      };
      CHECK_THROWS_WITH_AS(launch_threads(ranks, body), "boom", std::runtime_error);
      latest = Clock::now().time_since_epoch() - Clock::duration(thrown.load());
      CHECK(latest < std::chrono::seconds(20));
      CHECK(running.load() == 0);
      CHECK(left_with == std::array<int, ranks>{2, 2, -1, 2});
    }
    launch_threads(4, [](ThreadComm& comm) { mixed_round(comm); });
  }
}

TEST_CASE("An error that does not derive from std::exception comes home too") {
  CHECK_THROWS_AS(launch_threads(3,
                                 [](ThreadComm& comm) {
                                   if (comm.rank() == 1) throw 42;
                                   comm.barrier();
                                 }),
                  int);
}

TEST_CASE("A real error is preferred to the PeerFailed of a rank that left before it") {
  std::atomic<bool> left{false};
  const auto body = [&left](ThreadComm& comm) {
    if (comm.rank() == 0) {
      try {
        comm.barrier();  // rank 1 has returned
      } catch (const PeerFailed&) {
        left.store(true);
        throw;
      }
    }
    if (comm.rank() == 2) {
      while (!left.load()) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      throw std::runtime_error("boom");
    }
  };
  CHECK_THROWS_WITH_AS(launch_threads(3, body), "boom", std::runtime_error);
}

TEST_CASE("Buffers of a failing rank are not touched after they have died") {
  // The ranks fail at points that vary, in the middle of large copies, with memory of their own.
  for (int i = 0; i < 60; ++i) {
    const auto body = [i](ThreadComm& comm) {
      for (int round = 0; round < 20; ++round) {
        std::vector<double> x(20000, 1.0);
        std::vector<double> y(20000);
        auto sum = comm.all_reduce(row_view(x.data(), 20000), row_view(y.data(), 20000));
        std::vector<double> w(20000, 5.0);
        auto copy = comm.broadcast(row_view(w.data(), 20000), round % comm.size());
        std::vector<double> z(20000, 2.0);
        auto panel = comm.broadcast_panel(row_view(z.data(), 20000), row_view(y.data(), 20000), round % comm.size());
        if (comm.rank() == i % comm.size() && round == i % 20) {
          if (i % 3 == 0) panel.wait();
          if (i % 2 == 0) std::this_thread::yield();
          throw std::runtime_error("boom");
        }
        panel.wait();
        const View<const double> seen = panel.view();
        REQUIRE(std::accumulate(seen.data, seen.data + seen.size(), 0.0) == 40000.0);
        panel.release();
        copy.wait();
        sum.wait();
        comm.drain();
      }
    };
    CHECK_THROWS_WITH_AS(launch_threads(4, body), "boom", std::runtime_error);
  }
}

TEST_CASE("Lent memory of the communicator outlives a rank that throws without a panel in its hands") {
  for (int i = 0; i < 40; ++i) {
    const auto body = [](ThreadComm& comm) {
      Memory memory = comm.allocate(8000 * sizeof(double));
      auto* data = reinterpret_cast<double*>(memory.get());
      std::fill_n(data, 8000, 3.0);
      {
        auto panel = comm.broadcast_panel(row_view(data, 8000), View<double>(nullptr, 1, 8000, 8000), 0);
        if (comm.rank() != 0) {
          panel.wait();
          const View<const double> seen = panel.view();
          for (int k = 0; k < 20; ++k) {
            REQUIRE(std::accumulate(seen.data, seen.data + seen.size(), 0.0) == 24000.0);
          }
        }
      }
      if (comm.rank() == 0) throw std::runtime_error("boom");
      comm.barrier();
    };
    CHECK_THROWS_WITH_AS(launch_threads(3, body), "boom", std::runtime_error);
  }
}

/// Memory of the user's own that shows when it has died.
struct Mortal {
  std::vector<double> values = std::vector<double>(1000, 1.0);
  Mortal() = default;
  Mortal(const Mortal&) = delete;
  Mortal& operator=(const Mortal&) = delete;
  ~Mortal() { std::fill(values.begin(), values.end(), -1.0); }
};

TEST_CASE("A rank that throws while a peer reads its panel waits for the reader, and so does drain after an abort") {
  for (const bool drains : {false, true}) {
    std::atomic<bool> reading{false};
    std::atomic<bool> read{false};
    const auto body = [&](ThreadComm& comm) {
      Mortal lent;
      auto panel = comm.broadcast_panel(row_view(lent.values.data(), 1000), View<double>(nullptr, 1, 1000, 1000), 0);
      if (comm.rank() == 1) {
        panel.wait();
        reading.store(true);
        std::this_thread::sleep_for(milliseconds(30));
        const View<const double> seen = panel.view();
        CHECK(std::accumulate(seen.data, seen.data + seen.size(), 0.0) == 1000.0);
        read.store(true);
        panel.release();
        comm.barrier();
        return;
      }
      while (!reading.load()) std::this_thread::yield();
      if (!drains) throw std::runtime_error("boom");
      panel.release();
      comm.abort("enough");
      CHECK_THROWS_AS(comm.drain(), PeerFailed);
      CHECK(read.load());
    };
    if (drains) {
      CHECK_THROWS_AS(launch_threads(2, body), PeerFailed);
    } else {
      CHECK_THROWS_WITH_AS(launch_threads(2, body), "boom", std::runtime_error);
    }
  }
}

TEST_CASE("Memory freed while lent, without a failure, is kept for its reader and given back later") {
  launch_threads(2, [](ThreadComm& comm) {
    for (int i = 0; i < 200; ++i) {
      ThreadPanel<double> panel;
      {
        Memory memory = comm.allocate(1000 * sizeof(double));
        auto* data = reinterpret_cast<double*>(memory.get());
        std::fill_n(data, 1000, static_cast<double>(i));
        panel = comm.broadcast_panel(row_view(data, 1000), View<double>(nullptr, 1, 1000, 1000), 0);
      }
      if (comm.rank() == 1) {
        panel.wait();
        REQUIRE(panel.view()(0, 999) == i);
      }
      panel.release();
    }
    comm.drain();
  });
}

TEST_CASE("Memory may outlive its launch") {
  Memory kept;
  launch_threads(2, [&kept](ThreadComm& comm) {
    if (comm.rank() == 1) kept = comm.allocate(100);
    comm.barrier();
  });
  kept[99] = std::byte{1};
}

TEST_CASE("A rank that returns while peers wait for it fails them, and names itself") {
  const auto expect_left = [](int ranks, int origin, auto body) {
    try {
      launch_threads(ranks, body);
      FAIL("the launch must throw");
    } catch (const PeerFailed& error) {
      CHECK(error.origin == origin);
      CHECK(std::string(error.what()).find("left while peers wait for it in") != std::string::npos);
    }
  };
  expect_left(3, 1, [](ThreadComm& comm) {
    if (comm.rank() != 1) comm.barrier();
  });
  expect_left(3, 0, [](ThreadComm& comm) {
    double x = 0;
    if (comm.rank() != 0) comm.broadcast(row_view(&x, 1), 0).wait();
  });
  expect_left(2, 0, [](ThreadComm& comm) {
    double x = 0;
    if (comm.rank() == 1) comm.recv(row_view(&x, 1), 0, 0).wait();
  });
  expect_left(2, 0, [](ThreadComm& comm) {
    double x = 0;
    if (comm.rank() == 1) comm.send(row_view(&x, 1), 0, 0).wait();
  });
  expect_left(2, 1, [](ThreadComm& comm) {
    double x = 0;
    if (comm.rank() == 1) return;
    auto panel = comm.broadcast_panel(row_view(&x, 1), row_view(&x, 1), 0);
    comm.drain();
  });
  expect_left(4, 3, [](ThreadComm& comm) {
    std::optional<ThreadComm> part = comm.split(comm.rank() / 2, 0);
    if (comm.rank() == 2) part->barrier();  // its partner is rank 3 of the launch
    if (comm.rank() < 2) comm.barrier();    // waits for rank 2, which waits for rank 3
  });
}

TEST_CASE("What a rank did before it returned still succeeds, and ranks that are merely late are not failed") {
  for (int i = 0; i < 100; ++i) {
    launch_threads(4, [](ThreadComm& comm) {
      double x = comm.rank();
      if (comm.rank() == 3) std::this_thread::sleep_for(std::chrono::microseconds(500));
      comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
      std::optional<ThreadComm> part = comm.subset(2);
      if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
      if (!part) return;  // gone, while the others go on
      for (int k = 0; k < 5; ++k) part->barrier();
      double y = comm.rank();
      if (comm.rank() == 0) comm.send(row_view(&y, 1), 1, 0).wait();
      if (comm.rank() == 1) comm.recv(row_view(&y, 1), 0, 0).wait();
      REQUIRE(y == 0);
    });
  }
}

TEST_CASE("A wait beyond the deadline throws TimeoutError, and PeerFailed in the peers") {
  const auto start = Clock::now();
  std::atomic<bool> given_up{false};
  std::atomic<int> failed_peers{0};
  LaunchOptions options;
  options.deadline = milliseconds(60);
  const auto body = [&](ThreadComm& comm) {
    if (comm.rank() == 0) {
      while (!given_up.load() && Clock::now() - start < std::chrono::seconds(20)) std::this_thread::yield();
      CHECK_THROWS_AS(comm.barrier(), PeerFailed);
      ++failed_peers;
    } else {
      double x = 0;
      try {
        comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
      } catch (const TimeoutError&) {
        given_up.store(true);
        throw;
      }
    }
  };
  CHECK_THROWS_AS(launch_threads(2, options, body), TimeoutError);
  CHECK(failed_peers.load() == 1);
  CHECK(Clock::now() - start < std::chrono::seconds(20));
  CHECK_THROWS_AS(launch_threads(1, options,
                                 [](ThreadComm& comm) {
                                   double x = 0;
                                   comm.recv(row_view(&x, 1), 0, 0).wait();
                                 }),
                  TimeoutError);
}

TEST_CASE("abort frees the peers, in split communicators too, and a failed launch never looks like success") {
  std::atomic<int> split{0};
  std::atomic<int> left{0};
  const auto body = [&](ThreadComm& comm) {
    std::optional<ThreadComm> part = comm.split(comm.rank() % 2, 0);
    split.fetch_add(1);
    if (comm.rank() == 0) {
      while (split.load() < 4) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      comm.abort("enough");
      // The peers leave because of the abort, not because this rank has returned.
      const auto end = Clock::now() + std::chrono::seconds(20);
      while (left.load() < 3 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
      CHECK(left.load() == 3);
      CHECK_THROWS_AS(comm.barrier(), PeerFailed);
      return;
    }
    if (comm.rank() == 2) {
      CHECK_THROWS_WITH_AS(part->barrier(), "PeerFailed: rank 0 failed: enough", PeerFailed);
    } else {
      CHECK_THROWS_AS(comm.barrier(), PeerFailed);
    }
    left.fetch_add(1);
  };
  CHECK_THROWS_WITH_AS(launch_threads(4, body), "PeerFailed: rank 0 failed: enough", PeerFailed);
}

TEST_CASE("An abandoned request fails the launch") {
  const auto body = [](ThreadComm& comm) {
    double x = 0;
    if (comm.rank() == 1) {
      auto dropped = comm.all_reduce(row_view(&x, 1), row_view(&x, 1));
    } else {
      comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
    }
    comm.barrier();
  };
  // Rank 0 posts late or early; either way the sum cannot be complete when the request is dropped.
  try {
    launch_threads(2, body);
    FAIL("the launch must throw");
  } catch (const PeerFailed& error) {
    CHECK(error.origin == 1);
  }
}

TEST_CASE("Ranks that disagree about the collective or its shape are told, and do not read each other's memory") {
  CHECK_THROWS_AS(launch_threads(2,
                                 [](ThreadComm& comm) {
                                   double x = 0;
                                   if (comm.rank() == 0) comm.broadcast(row_view(&x, 1), 0).wait();
                                   if (comm.rank() == 1) comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
                                 }),
                  ArgumentError);
  CHECK_THROWS_AS(launch_threads(2,
                                 [](ThreadComm& comm) {
                                   std::array<double, 4> x{};
                                   comm.broadcast(row_view(x.data(), comm.rank() + 1), 0).wait();
                                 }),
                  ShapeError);
  CHECK_THROWS_AS(launch_threads(2,
                                 [](ThreadComm& comm) {
                                   std::array<double, 4> x{};
                                   auto panel = comm.broadcast_panel(row_view(x.data(), comm.rank() + 1),
                                                                     row_view(x.data(), comm.rank() + 1), 0);
                                   panel.wait();
                                   panel.release();
                                   comm.barrier();
                                 }),
                  ShapeError);
  CHECK_THROWS_AS(launch_threads(2,
                                 [](ThreadComm& comm) {
                                   std::array<double, 4> x{};
                                   if (comm.rank() == 0) comm.send(row_view(x.data(), 4), 1, 0).wait();
                                   if (comm.rank() == 1) comm.recv(row_view(x.data(), 3), 0, 0).wait();
                                 }),
                  ShapeError);
  CHECK_THROWS_AS(launch_threads(2,
                                 [](ThreadComm& comm) {
                                   float x = 0;
                                   double y = 0;
                                   if (comm.rank() == 0) comm.broadcast(row_view(&x, 1), 0).wait();
                                   if (comm.rank() == 1) comm.broadcast(row_view(&y, 1), 0).wait();
                                 }),
                  ArgumentError);
}

TEST_CASE("launch_threads: arguments, and both ways of taking the communicator") {
  const auto nothing = [](ThreadComm&) {};
  CHECK_THROWS_AS(launch_threads(0, nothing), ArgumentError);
  CHECK_THROWS_AS(launch_threads(-3, nothing), ArgumentError);
  LaunchOptions options;
  options.deadline = milliseconds(0);
  CHECK_THROWS_AS(launch_threads(1, options, nothing), ArgumentError);
  options.deadline = milliseconds::max();
  options.pin = Pin::always;
  std::atomic<int> calls{0};
  launch_threads(3, options, [&](ThreadComm comm) {
    comm.barrier();
    calls += comm.size();
  });
  launch_threads(2, [&](auto& comm) { calls += comm.size(); });
  launch_threads(2, [&](auto&& comm) { calls += comm.size(); });
  launch_threads(2, [&](auto comm) { calls += comm.size(); });
  CHECK(calls.load() == 21);
}

#if defined(__linux__)
TEST_CASE("ranks are bound where they fill the cores, or as told") {
  const int cores = detail::usable_cores();
  const auto narrowest = [](int ranks, Pin pin) {
    std::atomic<int> least{1 << 20};
    launch_threads(ranks, {.pin = pin}, [&](ThreadComm&) {
      const int own = detail::usable_cores();
      int seen = least.load();
      while (own < seen && !least.compare_exchange_weak(seen, own)) continue;
    });
    return least.load();
  };
  CHECK(narrowest(cores, Pin::automatic) == 1);
  CHECK(narrowest(cores + 1, Pin::automatic) == 1);
  CHECK(narrowest(1, Pin::automatic) == cores);  // one core: bound or not is the same
  CHECK(narrowest(1, Pin::always) == 1);
  CHECK(narrowest(cores, Pin::never) == cores);
}

TEST_CASE("ranks that share a core compute on it in turn; others hold nothing") {
  const int cores = detail::usable_cores();
  std::vector<std::atomic<int>> computing(static_cast<std::size_t>(cores));
  std::atomic<int> most{0}, turns{0};
  launch_threads(3 * cores, [&](ThreadComm& comm) {
    for (int i = 0; i < 20; ++i) {
      const auto turn = compute_turn(comm);
      REQUIRE(turn.owns_lock());
      std::atomic<int>& here = computing[static_cast<std::size_t>(comm.rank() % cores)];
      const int together = ++here;
      if (together > most) most = together;
      std::this_thread::yield();
      --here;
      ++turns;
    }
  });
  CHECK(most == 1);
  CHECK(turns == 60 * cores);
  launch_threads(cores, [](ThreadComm& comm) { CHECK_FALSE(compute_turn(comm).owns_lock()); });
  launch_threads(3 * cores, {.pin = Pin::never}, [](ThreadComm& comm) { CHECK_FALSE(compute_turn(comm).owns_lock()); });
}
#endif

/// Counts the events of one rank, and remembers the last.
class Recorder final : public EventSink {
 public:
  void record(const Event& event) override {
    ++count;
    last = event;
  }
  int count = 0;
  Event last;
};

TEST_CASE("Each operation is announced to the sink of its thread, and to no other") {
  launch_threads(3, [](ThreadComm& comm) {
    Recorder outer;
    Recorder inner;
    const SinkScope scope(outer);
    std::array<float, 6> x{};
    {
      const SinkScope nested(inner);
      comm.broadcast(View<float>(x.data(), Shape{2, 3}), 1).wait();
      CHECK(std::string(inner.last.operation) == "broadcast");
      CHECK(inner.last.root == 1);
      CHECK(inner.last.rank == comm.rank());
      CHECK(inner.last.size == 3);
      CHECK(inner.last.elements == 6);
      CHECK(inner.last.bytes == 24);
    }
    if (comm.rank() == 0) comm.barrier();
    if (comm.rank() != 0) comm.barrier();
    CHECK(inner.count == 1);
    CHECK(outer.count == 1);
    CHECK(std::string(outer.last.operation) == "barrier");
    CHECK(outer.last.root == -1);
  });
}

}  // namespace
}  // namespace partita
