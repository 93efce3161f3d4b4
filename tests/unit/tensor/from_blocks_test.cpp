// SPDX-License-Identifier: Apache-2.0
// Tensors from blocks that ranks hold: the global shape is found, and blocks that do not fit are named.

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "partita/backend/eigen.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/thread.hpp"
#include "partita/partition/policies.hpp"
#include "partita/tensor/from_blocks.hpp"
#include "partita/tensor/gather.hpp"

using namespace partita;

namespace {

using Ctx = Context<EigenBackend, ThreadComm>;

/// from_blocks() of blocks with these rows and columns on four ranks; the text of the ShapeError, or the global shape.
std::string build(const std::vector<Shape>& shapes, Units units) {
  std::vector<std::string> found(4);
  launch_threads(4, [&](ThreadComm& comm) {
    Ctx context(std::move(comm));
    const auto grid = make_grid<RowShard<4>>(context);
    const auto rank = static_cast<std::size_t>(context.rank());
    std::vector<double> memory(static_cast<std::size_t>(shapes[rank].size()), 1.0);
    try {
      const auto x = from_blocks<RowShard<4>>(grid, View<double>(memory.data(), shapes[rank]), units);
      const auto whole = gather(x);
      found[rank] =
          to_string(x.shape()) + " sum " +
          std::to_string(static_cast<int>(std::accumulate(whole.elements.begin(), whole.elements.end(), 0.0)));
    } catch (const ShapeError& error) {
      found[rank] = error.what();
    }
    CHECK(context.comm().agree(context.rank()) == 3);  // the communicator stays usable
  });
  for (const std::string& text : found) CHECK(text == found[0]);
  return found[0];
}

}  // namespace

TEST_CASE("R02: the global shape of blocks is their sum, not one block times the ranks") {
  // Cut at multiples of 3, ten rows are 3, 3, 3 and 1.
  CHECK(build({{3, 2}, {3, 2}, {3, 2}, {1, 2}}, {3, 1}) == "10x2 sum 20");
  // Cut evenly they are 3, 3, 2 and 2.
  CHECK(build({{3, 2}, {3, 2}, {2, 2}, {2, 2}}, {}) == "10x2 sum 20");
  CHECK(build({{3, 2}, {3, 2}, {3, 2}, {1, 2}}, {}) ==
        "ShapeError: blocks that add up to 10x2 are not cut as the partition cuts it: rank 2 holds 3x2 where the "
        "partition gives it 2x2, rank 3 holds 1x2 where the partition gives it 2x2");
  CHECK(build({{1, 2}, {3, 2}, {3, 2}, {3, 2}}, {3, 1}).find("rank 0 holds 1x2") != std::string::npos);
  CHECK(build({{3, 2}, {3, 2}, {0, 2}, {4, 2}}, {3, 1}).find("rank 2 holds 0x2") != std::string::npos);
  CHECK(build({{3, 2}, {3, 2}, {3, 2}, {1, 3}}, {3, 1}).find("rank 3 holds 1x3") != std::string::npos);
}

TEST_CASE("blocks on a grid with replicas: each copy is checked") {
  launch_threads(8, [](ThreadComm& comm) {
    Ctx context(std::move(comm));
    using P = Summa25DWeight<2, 2>;
    const auto grid = make_grid<P>(context);
    const Shape mine = block_of(P::layout, {5, 3}, {}, grid.ranks().extents(), grid.ranks().coordinates()).shape();
    std::vector<float> memory(static_cast<std::size_t>(mine.size()), 2.0F);
    CHECK(from_blocks<P>(grid, View<float>(memory.data(), mine)).shape() == Shape{5, 3});
    // One copy of a block differs from the other.
    const Shape wrong = context.rank() == 5 ? Shape{mine.rows, mine.cols - 1} : mine;
    CHECK_THROWS_AS((void)from_blocks<P>(grid, View<float>(memory.data(), wrong)), ShapeError);
  });
}
