// SPDX-License-Identifier: Apache-2.0
// When a rank has nothing to do, throws inside a product, or cannot build its part; and what stays behind afterwards.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

#include <unistd.h>

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

/// The products of one round: they sweep k, m and n in panels of 2. No CHECK may hold a call here: it would keep what
/// the call throws.
void several_products(ThreadContext& context) {
  const auto grid = make_grid<Summa2D<2>>(context);
  const auto a = from_function<double, Summa2D<2>>(grid, {9, 8}, fill_a);
  const auto b = from_function<double, Summa2D<2>>(grid, {8, 7}, fill_b);
  const MatmulOptions narrow{.panel_width = 2};
  const auto c = matmul(a, b, narrow);
  const auto d = gather(matmul(transposed(a), c, narrow));
  const auto e = gather(matmul(a, transposed(a), narrow));
  const auto whole = gather(c);
  context.comm().barrier();
  CHECK(same_bits(whole, serial_product<double>(9, 7, 8, fill_a, fill_b)));
  const auto a_transposed = [](index_t i, index_t j) { return fill_a(j, i); };
  CHECK(same_bits(d, serial_product<double>(8, 7, 9, a_transposed, whole)));
  CHECK(same_bits(e, serial_product<double>(9, 9, 8, fill_a, a_transposed)));
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
  const int threads_before = live_threads();
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
          if (since > std::chrono::seconds(1)) late = true;
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
  CHECK(live_threads() == threads_before);
}

/// Calls f on each of 4 ranks: all must leave with E within two seconds, and with a text that holds `text`.
template <class E, class Ctx, class F>
void all_refuse(Ctx& context, const std::string& text, F f) {
  const auto start = Clock::now();
  std::string found = "nothing was thrown";
  try {
    f();
  } catch (const E& error) {
    found = error.what();
  } catch (const std::exception& error) {
    found = std::string("another type: ") + error.what();
  }
  INFO(found);
  CHECK(found.find(text) != std::string::npos);
  CHECK(Clock::now() - start < std::chrono::seconds(2));
  context.comm().barrier();  // the communicator is usable
}

TEST_CASE("F07: what one rank cannot build, no rank builds, and all say why") {
  using Ctx = Context<EigenBackend, FailingComm<ThreadComm>>;
  launch_threads(4, [](ThreadComm& comm) {
    Ctx context(FailingComm<ThreadComm>(std::move(comm)));
    const bool bad = context.rank() == 3;
    auto& allocations = context.comm().allocations();

    // Grids.
    all_refuse<GridError>(context, "Grid<Tp 5> needs 5 ranks (5), the communicator has 4",
                          [&] { (void)make_grid<TpGrid<>>(context, bad ? 5 : 4); });
    all_refuse<GridError>(context, "every axis needs an extent of at least 1",
                          [&] { (void)make_grid<Grid2D<>>(context, bad ? -2 : 2, bad ? -2 : 2); });
    CHECK_THROWS_AS((void)make_grid<Grid2D<>>(context, bad ? 1 : 4, bad ? 4 : 1), GridError);  // 4 ranks either way

    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using P = Summa2D<>;
    // Sizes.
    all_refuse<ShapeError>(context, "sizes must be at least 0",
                           [&] { (void)zeros<double, P>(grid, {6, bad ? -5 : 5}); });
    all_refuse<ShapeError>(context, "units must be at least 1",
                           [&] { (void)zeros<double, P>(grid, {6, 5}, {1, bad ? 0 : 1}); });
    const auto another_size = [&] { (void)zeros<double, P>(grid, {6, bad ? 4 : 5}); };
    const auto another_unit = [&] { (void)zeros<double, P>(grid, {6, 5}, {bad ? 2 : 1, 1}); };
    CHECK_THROWS_AS(another_size(), ShapeError);
    CHECK_THROWS_AS(another_unit(), ShapeError);
    // Blocks that the user owns.
    std::vector<double> memory(64);
    all_refuse<ShapeError>(context, "null pointer",
                           [&] { (void)wrap<P>(grid, {6, 5}, bad ? nullptr : memory.data(), 3); });
    all_refuse<ShapeError>(context, "leading dimension of 1",
                           [&] { (void)wrap<P>(grid, {6, 5}, memory.data(), bad ? 1 : 3); });
    all_refuse<ShapeError>(context, "leading dimension of -3",
                           [&] { (void)wrap<P>(grid, {6, 5}, memory.data(), bad ? -3 : 3); });
    all_refuse<ShapeError>(context, "sizes must be at least 0",
                           [&] { (void)wrap<P>(grid, {bad ? -6 : 6, 5}, memory.data(), 3); });
    // Memory that cannot be had, in every constructor.
    const auto without_memory = [&](auto make) {
      all_refuse<CapacityError>(context, "no memory, says the test", [&] {
        allocations.left = bad ? 0 : 1000;
        make();
      });
      allocations.left = std::numeric_limits<index_t>::max();
      make();  // the next construction works
    };
    const auto a = from_function<double, P>(grid, {6, 6}, fill_a);
    without_memory([&] { (void)zeros<double, P>(grid, {6, 5}); });
    without_memory([&] { (void)from_function<double, P>(grid, {6, 5}, fill_a); });
    without_memory([&] { (void)random_uniform<double, P>(grid, {6, 5}, 1); });
    without_memory([&] { (void)a.clone(); });
    without_memory([&] { (void)matmul(a, a); });  // the result's own block
    Matrix<double> whole(Shape{6, 5});
    without_memory([&] { (void)scatter<P>(grid, {6, 5}, View<const double>(whole.view()), 0); });
    CHECK(same_bits(gather(matmul(a, a)), serial_product<double>(6, 6, 6, fill_a, fill_a)));
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
