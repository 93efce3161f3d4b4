// SPDX-License-Identifier: Apache-2.0
// A repeated product allocates nothing, on any rank.
#include <doctest/doctest.h>

#include <string>

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

}  // namespace
}  // namespace partita::test
