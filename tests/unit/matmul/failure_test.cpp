// SPDX-License-Identifier: Apache-2.0
// When a rank has nothing to do, throws inside a product, or cannot build its part; and what stays behind afterwards.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "support/construction_texts.hpp"
#include "support/failing_comm.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;

/// What every rank of a launch has done, compared on the main thread.
class Logs {
 public:
  explicit Logs(int ranks) : texts_(static_cast<std::size_t>(ranks)) {}
  void set(int rank, std::string text) { texts_[static_cast<std::size_t>(rank)] = std::move(text); }
  [[nodiscard]] bool all_equal() const {
    for (const auto& text : texts_) {
      if (text != texts_.front()) return false;
    }
    return true;
  }
  [[nodiscard]] const std::string& first() const { return texts_.front(); }

 private:
  std::vector<std::string> texts_;
};

TEST_CASE("F01: ranks without rows enter every collective") {
  Logs logs(4);
  launch_threads(4, LaunchOptions{.deadline = std::chrono::seconds(5)}, [&](ThreadComm& comm) {
    RecordingSink sink;
    ThreadContext context(std::move(comm));
    const SinkScope scope(sink);
    const auto grid = make_grid<RowShard<4>>(context);
    const auto x = from_function<double, RowShard<4>>(grid, {2, 6}, fill_a);
    CHECK(x.local().rows == (context.rank() < 2 ? 1 : 0));
    const auto w = from_function<double, Replicated<4>>(grid, {6, 5}, fill_b);
    const auto v = from_function<double, ColumnShard<4>>(grid, {6, 5}, fill_b);
    const auto wanted = serial_product<double>(2, 5, 6, fill_a, fill_b);
    CHECK(same_bits(gather(matmul(x, w)), wanted));                // local
    CHECK(same_bits(gather(matmul(x, v)), wanted));                // A comes in by rows
    CHECK(same_bits(gather(matmul(transposed(v), transposed(x))),  // B comes in by columns
                    serial_product<double>(
                        5, 2, 6, [](index_t i, index_t j) { return fill_b(j, i); },
                        [](index_t i, index_t j) { return fill_a(j, i); })));
    CHECK(same_bits(gather(matmul(transposed(x), x)),  // summed over ranks, two of them empty
                    serial_product<double>(6, 6, 2, [](index_t i, index_t j) { return fill_a(j, i); }, fill_a)));
    logs.set(context.rank(), sequence(sink.events));
  });
  CHECK(logs.all_equal());
  for (const char* operation : {"broadcast_panel", "all_reduce", "all_gather", "agree"}) {
    CHECK(logs.first().find(operation) != std::string::npos);
  }
}

int live_threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}

// A thread that was joined may be counted for a while: the kernel wakes who joins it before it takes it away.
template <class Done>
void poll_threads(std::chrono::milliseconds longest, Done done) {
  const auto start = Clock::now();
  while (!done(live_threads()) && Clock::now() - start < longest) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// The number of threads once those that were joined are gone.
int settled_threads() {
  int fewest = live_threads();
  poll_threads(std::chrono::milliseconds(500), [&](int now) {
    fewest = std::min(fewest, now);
    return false;
  });
  return fewest;
}

/// Whether there are `wanted` threads, now or soon; one that was never joined stays.
bool threads_become(int wanted) {
  bool equal = false;
  poll_threads(std::chrono::seconds(5), [&](int now) { return equal = now == wanted; });
  return equal;
}

/// The products of one round: they sweep k, m and n in panels of 2, and sum in parts. No CHECK may hold a call here: it
/// would keep what the call throws.
void several_products(ThreadContext& context) {
  const auto grid = make_grid<Summa2D<2>>(context);
  const auto a = from_function<double, Summa2D<2>>(grid, {9, 8}, fill_a);
  const auto b = from_function<double, Summa2D<2>>(grid, {8, 7}, fill_b);
  const MatmulOptions narrow{.panel_width = 2, .sum_width = 2};
  const auto c = matmul(a, b, narrow);
  const auto d = gather(matmul(transposed(a), c, narrow));
  const auto e = gather(matmul(a, transposed(a), narrow));
  const auto line = make_grid<RowShard<>>(context, 4);
  const auto rows = from_function<double, RowShard<>>(line, {9, 7}, fill_b);
  const auto square = gather(matmul(transposed(rows), rows, narrow));
  const auto whole = gather(c);
  context.comm().barrier();
  CHECK(same_bits(whole, serial_product<double>(9, 7, 8, fill_a, fill_b)));
  const auto a_transposed = [](index_t i, index_t j) { return fill_a(j, i); };
  CHECK(same_bits(d, serial_product<double>(8, 7, 9, a_transposed, whole)));
  CHECK(same_bits(e, serial_product<double>(9, 9, 8, fill_a, a_transposed)));
  const auto b_transposed = [](index_t i, index_t j) { return fill_b(j, i); };
  CHECK(same_bits(square, serial_product<double>(7, 7, 9, b_transposed, fill_b)));
}

TEST_CASE("F05: a rank that throws inside a product frees its peers, and the next launch works") {
  int operations = 0;
  on_ranks(4, [&](ThreadContext& context) {
    RecordingSink sink;
    const SinkScope scope(sink);
    several_products(context);
    if (context.rank() == 2) operations = static_cast<int>(sink.events.size());
  });
  CAPTURE(operations);
  CHECK(operations > 40);
  const int threads_before = settled_threads();
  const int repeats = operations > 100 ? operations : 100;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const int k = repeat % operations;
    CAPTURE(k);
    std::atomic<Clock::rep> thrown{0};
    std::atomic<int> left{0};
    std::atomic<bool> late{false};
    std::string error = "none";
    try {
      on_ranks(4, [&](ThreadContext& context) {
        if (context.rank() == 2) {
          ThrowingSink sink(k, &thrown);
          const SinkScope scope(sink);
          several_products(context);
          return;
        }
        try {
          several_products(context);
        } catch (const PeerFailed& failure) {
          if (failure.origin == 2) ++left;
          const Clock::duration since = Clock::now().time_since_epoch() - Clock::duration(thrown.load());
          if (since > std::chrono::seconds(20)) late = true;
          throw;
        }
      });
    } catch (const std::exception& e) {
      error = e.what();
    }
    CHECK(error == "boom");
    CHECK(left == 3);
    CHECK(!late);
    if (repeat % 10 == 0) on_ranks(4, several_products);
  }
  on_ranks(4, several_products);
  CAPTURE(threads_before);
  CAPTURE(live_threads());
  CHECK(threads_become(threads_before));
}

TEST_CASE("F07: what one rank cannot build, no rank builds, and all say why") {
  using Ctx = Context<EigenBackend, FailingComm<ThreadComm>>;
  launch_threads(4, [](ThreadComm& comm) {
    Ctx context(FailingComm<ThreadComm>(std::move(comm)));
    check_what_one_rank_cannot_build(context);
  });
}

TEST_CASE("A rank that finds no scratch memory inside a product frees its peers") {
  using Ctx = Context<EigenBackend, FailingComm<ThreadComm>>;
  std::atomic<int> freed{0};
  CHECK_THROWS_AS(launch_threads(4,
                                 [&](ThreadComm& comm) {
                                   Ctx context(FailingComm<ThreadComm>(std::move(comm)));
                                   const auto grid = make_grid<Summa2D<2>>(context);
                                   const auto a = from_function<double, Summa2D<2>>(grid, {6, 6}, fill_a);
                                   auto c = zeros<double, Summa2D<2>>(grid, {6, 6});
                                   if (context.rank() == 3) context.comm().allocations().left = 0;
                                   try {
                                     matmul_into(c, a, transposed(a));
                                     context.comm().barrier();
                                   } catch (const PeerFailed& failure) {
                                     if (failure.origin == 3) ++freed;
                                     throw;
                                   }
                                 }),
                  CapacityError);
  CHECK(freed == 3);
}

index_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  index_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// 40000 of each take 3 s on two idle cores. Sanitizers change what memory means: there, few rounds and no measure.
TEST_CASE("K01: grids and products that come and go leave no memory behind") {
  const int grids = sanitized ? 200 : 40000;
  const int products = sanitized ? 200 : 40000;
  std::atomic<index_t> growth_grids{0}, growth_products{0};
  on_ranks(4, [&](ThreadContext& context) {
    index_t before = 0;
    const auto mark = [&](int round, int last, std::atomic<index_t>& growth) {
      if (round != 100 && round != last - 1) return;
      context.comm().barrier();
      if (context.rank() == 0) {
        if (round == 100) before = resident_bytes();
        growth = resident_bytes() - before;
      }
      context.comm().barrier();
    };
    double sum = 0;
    for (int round = 0; round < grids; ++round) {
      const auto grid = make_grid<Summa2D<2>>(context);
      const auto a = from_function<double, Summa2D<2>>(grid, {4, 4}, fill_a);
      sum += matmul(a, a).local()(0, 0);
      mark(round, grids, growth_grids);
    }
    const auto grid = make_grid<Summa2D<2>>(context);
    const auto a = from_function<double, Summa2D<2>>(grid, {4, 4}, fill_a);
    for (int round = 0; round < products; ++round) {
      sum -= matmul(a, a).local()(0, 0);
      mark(round, products, growth_products);
    }
    CHECK(sum == (grids - products) * matmul(a, a).local()(0, 0));
  });
  if (!sanitized) {
    CHECK(growth_grids < 1 << 20);
    CHECK(growth_products < 1 << 20);
  }
}

}  // namespace
}  // namespace partita::test
