// SPDX-License-Identifier: Apache-2.0
// What threads do for each other: blocks lent to all in one step, and local work that is run by whoever waits.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "partita/backend/eigen.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"
#include "partita/partita.hpp"

namespace partita {
namespace {

using namespace std::chrono_literals;

static_assert(LendsBlocks<ThreadComm> && SharesWork<ThreadComm>);
static_assert(LendsBlocks<CountingComm<ThreadComm>> && SharesWork<CountingComm<ThreadComm>>);
static_assert(!LendsBlocks<SelfComm> && !SharesWork<SelfComm>);

struct DerivedKernel : EigenKernel {};
static_assert(any_thread_v<EigenBackend> && !any_thread_v<CpuBackend<DerivedKernel>>);

// ---- Lending -------------------------------------------------------------------------------------------------------

/// The 6×4 block of a rank in a matrix of 6 rows, and what it holds at global position (i, j).
constexpr Shape lent_shape{6, 4};
double lent_value(index_t i, index_t j) { return static_cast<double>(100 * i + j); }

TEST_CASE("Every rank reads parts of every block in place, and drain waits until all have released them") {
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    launch_threads(ranks, [](ThreadComm& comm) {
      const index_t first = comm.rank() * lent_shape.cols;
      std::array<double, 6 * 9> memory{};
      const View<double> block(memory.data(), lent_shape.rows, lent_shape.cols, 9);
      for (int round = 0; round < 100; ++round) {
        for (index_t i = 0; i < block.rows; ++i) {
          for (index_t j = 0; j < block.cols; ++j) block(i, j) = lent_value(i, first + j) + round;
        }
        ThreadLending lending =
            comm.lend(View<const double>(block), {{0, 6}, {first, first + 4}}, {6, 4 * comm.size()});
        for (int root = 0; root < comm.size(); ++root) {
          const index_t begin = root * lent_shape.cols;
          const Block part{{root % 3, 5}, {begin + 1, begin + 4}};
          auto panel = comm.panel_of<double>(lending, root, part);
          panel.wait();
          const View<const double> seen = panel.view();
          REQUIRE(seen.shape() == part.shape());
          REQUIRE(seen(0, 0) == lent_value(part.rows.begin, part.cols.begin) + round);
          REQUIRE(seen(seen.rows - 1, 2) == lent_value(4, begin + 3) + round);
          panel.release();
          REQUIRE(panel.view().empty());
        }
        if (comm.rank() == round % comm.size()) std::this_thread::sleep_for(100us);
        lending.release();
        comm.drain();
        for (index_t i = 0; i < block.rows; ++i) std::fill_n(block.row(i), block.cols, -1);
      }
    });
  }
}

TEST_CASE("Panels of a lending count as those of broadcasts do, and are announced as they are") {
  struct Sink final : EventSink {
    void record(const Event& event) override {
      found +=
          std::string(event.operation) + " " + std::to_string(event.root) + " " + std::to_string(event.elements) + "\n";
    }
    std::string found;
  };
  launch_threads(3, [](ThreadComm& threads) {
    CountingComm<ThreadComm> comm(std::move(threads));
    std::array<double, 8> block{};
    const View<const double> mine(block.data(), 2, 4, 4);
    std::array<Traffic, 2> counted;
    std::array<Traffic, 2> moved;
    std::array<Sink, 2> sinks;
    for (const bool lends : {false, true}) {
      const SinkScope scope(sinks[lends ? 1 : 0]);
      const Traffic before = comm.traffic();
      const Traffic moved_before = comm.base().traffic();
      std::optional<ThreadLending> lending;
      if (lends) lending.emplace(comm.lend(mine, {{0, 2}, {4 * comm.rank(), 4 * comm.rank() + 4}}, {2, 12}));
      for (int root = 0; root < 3; ++root) {
        const Block part{{0, 2}, {4 * root, 4 * root + 1 + root}};
        const View<const double> own = mine.sub({{0, 2}, {0, part.cols.size()}});
        auto panel = lends ? comm.panel_of<double>(*lending, root, part)
                           : comm.broadcast_panel<double>(own, View<double>(nullptr, part.shape()), root);
        panel.wait();
      }
      lending.reset();
      comm.drain();
      counted[lends ? 1 : 0] = comm.traffic() - before;
      moved[lends ? 1 : 0] = comm.base().traffic() - moved_before;
    }
    CHECK(counted[0] == counted[1]);
    CHECK(moved[0] == moved[1]);
    CHECK(counted[1] == moved[1]);
    CHECK(counted[1].messages == 2);
    CHECK(sinks[0].found == sinks[1].found);
    CHECK(!sinks[1].found.empty());
  });
}

TEST_CASE("Ranks that lend other blocks than their peers expect, or other types, are told") {
  // All ranks lend rows 0 to 3 of their matrix, and all but rank 0 read a part of rank 0's.
  const auto lend_and_read = [](auto whole, Block part, bool reads_own = false) {
    launch_threads(3, [&](ThreadComm& comm) {
      const Shape shape = whole(comm.rank());
      std::array<double, 36> block{};
      const View<const double> lent(block.data(), 3, shape.cols, shape.cols);
      const ThreadLending lending = comm.lend(lent, {{0, 3}, {0, shape.cols}}, shape);
      if (comm.rank() > 0 || reads_own) {
        auto panel = comm.panel_of<double>(lending, 0, part);
        panel.wait();
        panel.release();
      }
      comm.barrier();
    });
  };
  const auto same = [](int) { return Shape{6, 4}; };
  CHECK_NOTHROW(lend_and_read(same, {{1, 3}, {0, 4}}));
  CHECK_NOTHROW(lend_and_read(same, {{1, 3}, {0, 4}}, true));
  for (const Block outside : {Block{{1, 4}, {0, 4}}, Block{{0, 1}, {2, 5}}, Block{{-1, 1}, {0, 1}}}) {
    CHECK_THROWS_AS(lend_and_read(same, outside), ShapeError);
    CHECK_THROWS_AS(lend_and_read(same, outside, true), ShapeError);
  }
  // What is read lies in what is lent, but of another matrix.
  const auto other = [](int rank) { return rank == 0 ? Shape{6, 4} : Shape{6, 5}; };
  CHECK_THROWS_WITH_AS(lend_and_read([](int rank) { return rank == 0 ? Shape{6, 4} : Shape{5, 4}; }, {{1, 3}, {0, 4}}),
                       doctest::Contains("lends rows 0 to 3, columns 0 to 4 of a matrix of 6x4"), ShapeError);
  CHECK_THROWS_AS(lend_and_read(other, {{0, 1}, {0, 1}}), ShapeError);

  const auto read_as = [](auto lent, auto wanted) {
    using Lent = decltype(lent);
    using Wanted = decltype(wanted);
    launch_threads(2, [](ThreadComm& comm) {
      Lent x = 0;
      Wanted y = 0;
      const Block one{{0, 1}, {0, 1}};
      if (comm.rank() == 0) {
        const ThreadLending lending = comm.lend(View<const Lent>(row_view(&x, 1)), one, {1, 1});
        comm.barrier();
      } else {
        const ThreadLending lending = comm.lend(View<const Wanted>(row_view(&y, 1)), one, {1, 1});
        comm.panel_of<Wanted>(lending, 0, one).wait();
      }
    });
  };
  CHECK_THROWS_AS(read_as(1.0F, 1.0), ArgumentError);
  const auto alone = [](auto body) { launch_threads(1, [&](ThreadComm& comm) { body(comm); }); };
  double x = 0;
  const View<const double> view = row_view(&x, 1);
  const Block one{{0, 1}, {0, 1}};
  CHECK_THROWS_AS(alone([&](ThreadComm& comm) { static_cast<void>(comm.lend(view, {{0, 1}, {0, 2}}, {1, 2})); }),
                  ShapeError);
  CHECK_THROWS_AS(alone([&](ThreadComm& comm) {
                    const ThreadLending lending = comm.lend(view, one, {1, 1});
                    static_cast<void>(comm.panel_of<double>(lending, 1, one));
                  }),
                  ArgumentError);
  CHECK_THROWS_AS(alone([&](ThreadComm& comm) {
                    const ThreadLending lending = comm.lend(view, one, {1, 1});
                    static_cast<void>(comm.panel_of<float>(lending, 0, one));
                  }),
                  ArgumentError);
}

TEST_CASE("Ranks that multiply matrices of different shapes are told, though what they read is there") {
  using Pair = Summa2D<1, 2>;
  CHECK_THROWS_AS(launch_threads(2,
                                 [](ThreadComm& comm) {
                                   const index_t k = comm.rank() == 0 ? 7 : 8;
                                   ThreadContext context(std::move(comm));
                                   const auto grid = make_grid<Pair>(context);
                                   const auto a7 = zeros<double, Pair>(grid, {4, 7});
                                   const auto a8 = zeros<double, Pair>(grid, {4, 8});
                                   const auto b7 = zeros<double, Pair>(grid, {7, 4});
                                   const auto b8 = zeros<double, Pair>(grid, {8, 4});
                                   auto c = zeros<double, Pair>(grid, {4, 4});
                                   matmul_into(c, k == 7 ? a7 : a8, k == 7 ? b7 : b8);
                                 }),
                  ShapeError);
}

TEST_CASE("A panel that was given up is not found again by another wait") {
  const auto body = [](ThreadComm& comm) {
    double x = 1;
    const bool root = comm.rank() == 0;
    auto panel = comm.broadcast_panel(row_view(&x, 1), row_view(&x, 1), 0);
    panel.wait();
    if (root) comm.abort("enough");
    CHECK_THROWS_AS(comm.barrier(), PeerFailed);
    if (!root) CHECK_THROWS_AS(panel.wait(), PeerFailed);
    panel.release();
  };
  CHECK_THROWS_AS(launch_threads(2, body), PeerFailed);
}

TEST_CASE("A lending that dies while an exception unwinds fails nobody if all others have released theirs") {
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    launch_threads(ranks, [](ThreadComm& comm) {
      double x = 0;
      ThreadLending lending = comm.lend(View<const double>(row_view(&x, 1)), {{0, 1}, {0, 1}}, {1, 1});
      if (comm.rank() > 0) lending.release();
      comm.barrier();
      try {
        const ThreadLending dies = std::move(lending);
        throw 1;
      } catch (int) {
      }
      comm.barrier();
    });
  }
}

TEST_CASE("A rank that throws while a peer reads its lent block waits for the reader") {
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> reading{false};
    std::atomic<bool> read{false};
    const auto body = [&](ThreadComm& comm) {
      std::vector<double> block(5000, comm.rank() + 1.0);
      const ThreadLending lending =
          comm.lend(View<const double>(row_view(block.data(), 5000)), {{0, 1}, {0, 5000}}, {1, 5000});
      if (comm.rank() == 1) {
        while (!reading.load()) std::this_thread::yield();
        throw std::runtime_error("boom");
      }
      auto panel = comm.panel_of<double>(lending, 1, {{0, 1}, {0, 5000}});
      panel.wait();
      reading.store(true);
      std::this_thread::sleep_for(200us);
      const View<const double> seen = panel.view();
      CHECK(std::accumulate(seen.row(0), seen.row(0) + 5000, 0.0) == 10000);
      read.store(true);
      panel.release();
      comm.barrier();
    };
    CHECK_THROWS_WITH_AS(launch_threads(2, body), "boom", std::runtime_error);
    CHECK(read.load());
  }
}

// ---- Shared work ---------------------------------------------------------------------------------------------------

#if defined(__linux__)

/// Overwrites a block that is about to die.
struct Poison {
  std::vector<double>& block;
  ~Poison() { std::fill(block.begin(), block.end(), -1); }
};

/// Work that can be run on some threads only.
struct Work {
  enum class On { owner, peers, none, all };

  On on = On::all;
  std::thread::id owner = std::this_thread::get_id();
  bool throws = false;
  int pieces = 3;
  std::atomic<int> runs{0};
  std::thread::id runner;

  static bool ready(void* self) {
    const Work& work = *static_cast<Work*>(self);
    const bool own = std::this_thread::get_id() == work.owner;
    return work.on == On::all || (work.on == On::owner && own) || (work.on == On::peers && !own);
  }
  static bool run(void* self) {
    Work& work = *static_cast<Work*>(self);
    work.runner = std::this_thread::get_id();
    if (work.throws) throw std::runtime_error("out of work");
    return ++work.runs == work.pieces;
  }
};

/// Rank 0 offers work again and again until it is run, or `limit` times; the others wait for each other meanwhile.
template <class Try>
void offer_until_run(ThreadComm& comm, Try try_once, int limit = 1 << 30) {
  std::optional<ThreadComm> others = comm.split(comm.rank() == 0 ? 0 : 1, comm.rank());
  static std::atomic<bool> ended;
  if (comm.rank() == 0) ended.store(false);
  comm.barrier();
  if (comm.rank() == 0) {
    for (int i = 0; i < limit && !try_once(); ++i) {
    }
    ended.store(true);
  } else {
    while (others->agree(ended.load() ? 1 : 0) == 0) {
    }
  }
  comm.barrier();
}

TEST_CASE("Work that is offered is run once: by its rank, or by one that waits") {
  const int ranks = 3 * detail::usable_cores();
  for (const Work::On on : {Work::On::owner, Work::On::peers, Work::On::all}) {
    std::vector<std::thread::id> threads(static_cast<std::size_t>(ranks));
    launch_threads(ranks, [&](ThreadComm& comm) {
      threads[static_cast<std::size_t>(comm.rank())] = std::this_thread::get_id();
      comm.barrier();
      for (int round = 0; round < 20; ++round) {
        Work work;
        work.on = on;
        offer_until_run(comm, [&] { return comm.share_work(Work::ready, Work::run, &work); });
        if (comm.rank() != 0) continue;
        REQUIRE(work.runs == 3);
        REQUIRE(std::find(threads.begin(), threads.end(), work.runner) != threads.end());
        if (on == Work::On::owner) REQUIRE(work.runner == threads[0]);
        if (on == Work::On::peers) REQUIRE(work.runner != threads[0]);
      }
    });
  }
}

TEST_CASE("What offered work throws is thrown where it was offered, whoever ran it") {
  const int ranks = 3 * detail::usable_cores();
  for (const Work::On on : {Work::On::owner, Work::On::peers}) {
    launch_threads(ranks, [&](ThreadComm& comm) {
      Work work;
      work.on = on;
      work.throws = true;
      int caught = 0;
      const auto offer = [&] {
        try {
          return comm.share_work(Work::ready, Work::run, &work);
        } catch (const std::runtime_error& error) {
          CHECK(std::string(error.what()) == "out of work");
          ++caught;
          return true;
        }
      };
      offer_until_run(comm, offer);
      if (comm.rank() != 0) return;
      CHECK(caught == 1);
      CHECK(work.runs == 0);
      work.throws = false;
      work.on = Work::On::owner;
      while (!comm.share_work(Work::ready, Work::run, &work)) {
      }
      CHECK(work.runs == 3);
    });
  }
}

TEST_CASE("Work that nobody can run is taken back, and nobody offers where cores are not shared") {
  const int cores = detail::usable_cores();
  const auto body = [](ThreadComm& comm) {
    Work work;
    work.on = Work::On::none;
    CHECK_FALSE(comm.share_work(Work::ready, Work::run, &work));
    CHECK(work.runs == 0);
    comm.barrier();
  };
  launch_threads(3 * cores, body);
  const auto alone = [](ThreadComm& comm) {
    Work work;
    CHECK_FALSE(comm.share_work(Work::ready, Work::run, &work));
    CHECK(work.runs == 0);
    comm.barrier();
  };
  launch_threads(cores, alone);
  launch_threads(3 * cores, {.pin = Pin::never}, alone);
}

TEST_CASE("Work that stops being ready is taken back with what is left of it") {
  launch_threads(3 * detail::usable_cores(), [](ThreadComm& comm) {
    Work work;
    const auto first_alone = [](void* self) { return static_cast<Work*>(self)->runs == 0; };
    while (!comm.share_work(first_alone, Work::run, &work) && work.runs == 0) {
    }
    CHECK(work.runs == 1);
    comm.barrier();
  });
}

/// Reads what rank 1 lends, slowly.
struct Reading {
  ThreadPanel<double> panel;
  std::thread::id owner = std::this_thread::get_id();
  std::atomic<bool>* begun;
  std::atomic<double>* sum;

  static bool ready(void* self) {
    const Reading& reading = *static_cast<Reading*>(self);
    return std::this_thread::get_id() != reading.owner && reading.panel.lent();
  }
  static bool run(void* self) {
    const Reading& reading = *static_cast<Reading*>(self);
    reading.begun->store(true);
    std::this_thread::sleep_for(300us);
    const View<const double> seen = reading.panel.lent_view();
    reading.sum->store(std::accumulate(seen.row(0), seen.row(0) + seen.cols, 0.0));
    return true;
  }
};

TEST_CASE("A rank that throws while a peer's thread reads its lent block for another waits for it") {
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> begun{false};
    std::atomic<double> sum{0};
    const auto body = [&](ThreadComm& comm) {
      std::optional<ThreadComm> helpers = comm.split(comm.rank() < 2 ? -1 : 0, comm.rank());
      std::vector<double> block(5000, comm.rank() + 1.0);
      const Poison poison{block};
      const ThreadLending lending =
          comm.lend(View<const double>(row_view(block.data(), 5000)), {{0, 1}, {0, 5000}}, {1, 5000});
      if (comm.rank() == 1) {
        while (!begun.load()) std::this_thread::yield();
        throw std::runtime_error("boom");
      }
      if (comm.rank() == 0) {
        Reading reading{.panel = comm.panel_of<double>(lending, 1, {{0, 1}, {0, 5000}}), .begun = &begun, .sum = &sum};
        while (!comm.share_work(Reading::ready, Reading::run, &reading)) {
        }
        reading.panel.end_loan();
        comm.barrier();
      }
      for (;;) helpers->barrier();
    };
    CHECK_THROWS_WITH_AS(launch_threads(3 * detail::usable_cores(), body), "boom", std::runtime_error);
    CHECK(sum.load() == 10000);
  }
}

TEST_CASE("A failing rank ends an offer, and waits for whoever runs work on its memory") {
  const int ranks = 3 * detail::usable_cores();
  for (int i = 0; i < 20; ++i) {
    const auto body = [&](ThreadComm& comm) {
      if (comm.rank() == 1) {
        static_cast<void>(comm.agree(0));
        throw std::runtime_error("boom");
      }
      static_cast<void>(comm.agree(0));
      Work work;
      work.on = comm.rank() == 0 ? Work::On::none : Work::On::all;
      while (comm.share_work(Work::ready, Work::run, &work) || comm.rank() == 0) {
        static_cast<void>(comm.agree(0));
      }
    };
    CHECK_THROWS_WITH_AS(launch_threads(ranks, body), "boom", std::runtime_error);
  }
}

TEST_CASE("A rank advances what it has begun while its work is on offer") {
  // Rank 0's sum needs rank 1, whose work becomes ready with it alone.
  const int ranks = 2 * detail::usable_cores() + 1;
  launch_threads(ranks, [&](ThreadComm& comm) {
    for (int round = 0; round < 50; ++round) {
      static std::atomic<int> summed;
      double x = 1;
      double sum = 0;
      auto request = comm.all_reduce(row_view(&x, 1), row_view(&sum, 1));
      if (comm.rank() == 0) {
        request.wait();
        ++summed;
      } else {
        const auto ready = [](void* wanted) { return summed.load() >= *static_cast<int*>(wanted); };
        int wanted = round + 1;
        while (!comm.share_work(ready, [](void*) { return true; }, &wanted)) {
        }
        request.wait();
      }
      REQUIRE(sum == ranks);
      comm.barrier();
    }
    comm.barrier();
  });
}

/// Eigen's product, by the thread of its rank alone, or by any.
template <bool AnyThread>
struct NotingKernel {
  using any_thread = std::conditional_t<AnyThread, NotingKernel, void>;

  template <class T>
  void gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c) {
    if (std::this_thread::get_id() != owner) ++*by_others;
    EigenKernel().gemm<T>(alpha, a, b, c);
  }

  std::thread::id owner = std::this_thread::get_id();
  std::atomic<int>* by_others;
};

/// Products of 16 ranks until a peer has run one, or 50 times; their results are right. Returns how many peers ran.
template <bool AnyThread>
int products_by_others() {
  using Kernel = NotingKernel<AnyThread>;
  using Ctx = Context<CpuBackend<Kernel>, ThreadComm>;
  std::atomic<int> by_others{0};
  launch_threads(16, [&](ThreadComm& comm) {
    Ctx context(std::move(comm), CpuBackend<Kernel>(Kernel{.by_others = &by_others}));
    const auto grid = make_grid<Summa2D<4, 4>>(context);
    const auto ones = from_function<double, Summa2D<4, 4>>(
        grid, {40, 40}, [](index_t i, index_t j) { return static_cast<double>(i == j ? 2 : 0); });
    const auto numbers = from_function<double, Summa2D<4, 4>>(
        grid, {40, 40}, [](index_t i, index_t j) { return static_cast<double>(40 * i + j); });
    DistTensor<double, Summa2D<4, 4>, Ctx> c(grid, {40, 40});
    for (int i = 0; i < 50 || AnyThread; ++i) {
      matmul_into(c, ones, numbers);
      const Block block = c.block();
      for (index_t r = 0; r < block.rows.size(); ++r) {
        for (index_t s = 0; s < block.cols.size(); ++s) {
          REQUIRE(c.local()(r, s) == 2.0 * static_cast<double>(40 * (block.rows.begin + r) + block.cols.begin + s));
        }
      }
      if (context.comm().agree(by_others.load()) > 0 && i >= 50) break;
    }
  });
  return by_others;
}

TEST_CASE("Products are run by other ranks where the backend allows it, and right") {
  if (detail::usable_cores() >= 16) {
    MESSAGE("skipped: 16 ranks share no core here");
    return;
  }
  CHECK(products_by_others<true>() > 0);
  CHECK(products_by_others<false>() == 0);
}

TEST_CASE("Blocks stay lent until the last panel, also where more move than are in flight at once") {
  constexpr int ranks = most_panels_in_flight + 4;
  using Columns = ColumnShard<ranks>;
  launch_threads(ranks, [](ThreadComm& comm) {
    ThreadContext context(std::move(comm));
    const auto grid = make_grid<Columns>(context);
    auto a = zeros<double, Columns>(grid, {8, ranks});
    const auto ones = from_function<double, Columns>(grid, {ranks, ranks}, [](index_t, index_t) { return 1.0; });
    auto c = zeros<double, Columns>(grid, {8, ranks});
    for (int round = 1; round <= 100; ++round) {
      for (index_t i = 0; i < 8; ++i) a.local()(i, 0) = round;
      matmul_into(c, a, ones);
      for (index_t i = 0; i < 8; ++i) a.local()(i, 0) = -1000;
      for (index_t i = 0; i < 8; ++i) REQUIRE(c.local()(i, 0) == round * ranks);
    }
  });
}

#endif

}  // namespace
}  // namespace partita
