// SPDX-License-Identifier: Apache-2.0
// A repeated product allocates nothing, on any rank.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "support/repeated_products.hpp"

#include "support/allocations.hpp"

namespace partita::test {
namespace {

TEST_CASE("a product that was done before allocates nothing, whatever its partitions") {
  for (const PanelMove move : {PanelMove::broadcast, PanelMove::all_gather}) {
    on_ranks(4, [move](ThreadContext& context) {
      MatmulOptions options{.panel_width = 8};
      options.panels = move;
      int products = 0;
      repeated_products(context, 2, 2, 1, options, [&](const char* scalar, auto product) {
        for (int i = 0; i < 3; ++i) product();
        const Allocations before = allocations;
        for (int i = 0; i < 5; ++i) product();
        const Allocations after = allocations;
        INFO("product ", products, " of ", std::string(scalar));
        CHECK(after.memory == before.memory);
        CHECK(after.mappings == before.mappings);
        ++products;
      });
      CHECK(products > 20);
    });
  }
  const Allocations before = allocations;
  ::operator delete(::operator new(100));
  CHECK(allocations.memory - before.memory == (counts_allocations ? 1 : 0));
}

TEST_CASE("operations that are open because a peer is late allocate nothing: sums, panels lent, panels read") {
  constexpr int count = 30;
  std::atomic<bool> begun{false};
  launch_threads(2, [&begun](ThreadComm& comm) {
    std::array<double, count> x{}, y{};
    const auto at = [](auto& values, int i) { return row_view(&values[static_cast<std::size_t>(i)], 1); };
    std::array<ThreadRequest, count> sums;
    std::array<ThreadPanel<double>, count> panels;
    while (comm.rank() == 1 && !begun.load()) std::this_thread::yield();
    const Allocations before = allocations;
    for (int i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] = comm.all_reduce(at(x, i), at(y, i));
    for (int i = 0; i < count; ++i) panels[static_cast<std::size_t>(i)] = comm.broadcast_panel(at(x, i), at(y, i), 0);
    begun.store(true);
    for (auto& panel : panels) panel.wait();
    for (auto& sum : sums) sum.wait();
    for (auto& panel : panels) panel.release();
    comm.drain();
    const Allocations after = allocations;
    CHECK(after.memory == before.memory);
  });
}

}  // namespace
}  // namespace partita::test
