// SPDX-License-Identifier: Apache-2.0
// What goes into products and comes out of them: wrapped memory, scatter and gather, random values, clones, moves.
#include <doctest/doctest.h>
#include <Eigen/Core>

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

TEST_CASE("Philox4x32-10: the known answers of its authors") {
  using Four = std::array<std::uint32_t, 4>;
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ff = 0xffffffff;
  static_assert(philox4x32({ff, ff, ff, ff}, {ff, ff}) == Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random values: in range, different by place, seed and lane, and of the right mean") {
  double sum = 0;
  for (index_t i = 0; i < 100; ++i) {
    for (index_t j = 0; j < 100; ++j) {
      const double x = random_unit(5, i, j);
      CHECK((x >= 0 && x < 1));
      sum += x;
    }
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.02));
  CHECK(random_bits(1, 0, 1) != random_bits(1, 1, 0));
  CHECK(random_bits(1, 0, 1) != random_bits(2, 0, 1));
  CHECK(random_bits(1, 0, 1, 0) != random_bits(1, 0, 1, 1));
  CHECK(random_bits(1, index_t{1} << 32, 0) != random_bits(1, 0, 0));  // no index is cut to 32 bits
  CHECK(random_bits(1, 0, index_t{1} << 32) != random_bits(1, 0, 0));
  CHECK(random_bits(1, index_t{1} << 40, 3) != random_bits(1, 3, index_t{1} << 40));
}

/// Every named policy with its grid: calls body(grid, partition) on each rank.
template <class Body>
void for_policies(Body body) {
  on_ranks(3, [&](ThreadContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 3);
    body(grid, Replicated<>{});
    body(grid, ColumnShard<>{});
    body(grid, RowShard<>{});
  });
  on_ranks(6, [&](ThreadContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 3);
    body(grid, Summa2D<>{});
    body(grid, transposed_t<Summa2D<>>{});
    body(grid, Partition<Grid2D<>, RowsOver<Col, Row>>{});
  });
  on_ranks(12, [&](ThreadContext& context) {
    const auto grid = make_grid<Grid25D<>>(context, 3, 2, 2);
    body(grid, Summa25D<>{});
    body(grid, Summa25DWeight<>{});
    body(grid, SplitKLeft<>{});
  });
}

TEST_CASE("scatter, gather and clone bring every element home, under all policies and units") {
  for_policies([](const auto& grid, auto partition) {
    using P = decltype(partition);
    const int ranks = grid.context().size();
    for (const Shape shape : {Shape{13, 7}, Shape{2, 1}, Shape{0, 4}, Shape{1, 9}, Shape{24, 12}}) {
      for (const Units units : {Units{}, Units{4, 3}}) {
        Matrix<double> whole(shape);
        for (index_t i = 0; i < shape.rows; ++i) {
          for (index_t j = 0; j < shape.cols; ++j) whole(i, j) = static_cast<double>(100 * i + j);
        }
        const int root = static_cast<int>(shape.rows) % ranks;
        const bool is_root = grid.context().rank() == root;
        auto tensor =
            scatter<P>(grid, shape, is_root ? View<const double>(whole.view()) : View<const double>(), root, units);
        const Block block = tensor.block();
        bool right = tensor.local().shape() == block.shape() && tensor.units() == units;
        right = right && (block.rows.begin % units.rows == 0 || block.rows.empty());
        right = right && (block.cols.begin % units.cols == 0 || block.cols.empty());
        for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
          for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
            right = right && tensor.local()(i - block.rows.begin, j - block.cols.begin) == whole(i, j);
          }
        }
        CHECK(right);
        CHECK(same_bits(gather(tensor), whole));
        // A clone has the values and memory of its own.
        const auto copy = tensor.clone();
        CHECK(!copy.identity().shares_memory_with(tensor.identity()));
        for (index_t i = 0; i < tensor.local().rows; ++i) {
          for (index_t j = 0; j < tensor.local().cols; ++j) tensor.local()(i, j) = -1;
        }
        CHECK(same_bits(gather(copy), whole));
      }
    }
  });
  on_ranks(3, [](ThreadContext& context) {  // the root's matrix has another shape
    const auto grid = make_grid<RowShard<3>>(context);
    const Matrix<double> whole(Shape{4, 5});
    const auto wrong = [&] { (void)scatter<RowShard<3>>(grid, {5, 4}, whole.view(), 1); };
    CHECK_THROWS_AS(wrong(), ShapeError);
    context.comm().barrier();
  });
}

TEST_CASE("gather moves what a rank does not hold, and nothing twice") {
  using Ctx = Context<EigenBackend, CountingComm<ThreadComm>>;
  launch_threads(8, [](ThreadComm& comm) {
    Ctx context{CountingComm<ThreadComm>(std::move(comm))};
    const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
    const auto weight = zeros<float, Summa25DWeight<>>(grid, {4, 6});
    const Traffic before = context.comm().traffic();
    CHECK(gather(weight).shape == Shape{4, 6});
    const Traffic moved = context.comm().traffic() - before;
    // Copies in the second layer are not sent: its ranks receive all of it.
    CHECK(moved.elements == (grid.coordinate<Depth>() == 0 ? 18 : 24));
  });
}

template <class T>
std::vector<T> random_everywhere(Shape shape, std::uint64_t seed) {
  std::vector<T> first;
  std::vector<std::vector<T>> all(64);
  for_policies([&](const auto& grid, auto partition) {
    const auto whole = gather(random_uniform<T, decltype(partition)>(grid, shape, seed, -2, 3));
    auto& mine = all[static_cast<std::size_t>(grid.context().rank())];
    if (mine.empty()) mine = whole.elements;
    CHECK(std::memcmp(mine.data(), whole.elements.data(), mine.size() * sizeof(T)) == 0);
  });
  for (const auto& of_rank : all) {
    if (!of_rank.empty()) CHECK(std::memcmp(of_rank.data(), all[0].data(), all[0].size() * sizeof(T)) == 0);
  }
  return all[0];
}

TEST_CASE_TEMPLATE("random_uniform gives the same matrix under every partition", T, float, double, std::complex<double>,
                   bfloat16) {
  const auto x = random_everywhere<T>({11, 13}, 7);
  const auto y = random_everywhere<T>({11, 13}, 8);
  REQUIRE(x.size() == 143);
  CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) != 0);
}

TEST_CASE("wrapped memory: leading dimensions, padding, Eigen maps, column-major data as a transposed view") {
  on_ranks(4, [](ThreadContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using P = Summa2D<>;
    using RowMajor = Eigen::Matrix<double, -1, -1, Eigen::RowMajor>;
    using ColumnMajor = Eigen::Matrix<double, -1, -1, Eigen::ColMajor>;
    using Stride = Eigen::OuterStride<>;
    const Shape shape{5, 7};
    const Block block = block_of(P::layout, shape, {}, grid.ranks().extents(), grid.ranks().coordinates());
    const index_t rows = block.rows.size(), cols = block.cols.size(), ld = cols + 3;
    const auto fill = [&](auto&& matrix, auto f) {
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < cols; ++j)
          matrix(i, j) = static_cast<double>(f(block.rows.begin + i, block.cols.begin + j));
      }
    };
    std::vector<double> memory(static_cast<std::size_t>(rows * ld), -7777);
    Eigen::Map<RowMajor, 0, Stride> map(memory.data(), rows, cols, Stride(ld));
    fill(map, fill_a);
    auto a = wrap<P>(grid, shape, map);
    CHECK(a.local().data == memory.data());
    CHECK(a.local().ld == ld);
    RowMajor owned(rows, cols);
    fill(owned, fill_b);
    const auto b = wrap<P>(grid, shape, owned);
    const auto gathered = gather(b);
    CHECK(same_bits(gathered, serial_product<double>(5, 7, 7, fill_b, [](index_t i, index_t j) { return i == j; })));

    // Read-only memory can be wrapped too.
    const RowMajor& constant = owned;
    const auto b_const = wrap<P>(grid, shape, constant);
    static_assert(std::is_same_v<std::remove_const_t<decltype(b_const)>::value_type, const double> ||
                  std::is_same_v<std::remove_const_t<decltype(b_const)>::value_type, double>);

    // Column-major: the same numbers stored the other way, wrapped as the transposed matrix.
    ColumnMajor column_major(rows, cols);
    fill(column_major, fill_a);
    const auto a_columns = wrap<transposed_t<P>>(grid, shape.transposed(), column_major.transpose());
    CHECK(a_columns.local().data == column_major.data());
    const auto wanted = serial_product<double>(5, 5, 7, fill_a, [](index_t i, index_t j) { return fill_b(j, i); });
    CHECK(same_bits(gather(matmul(transposed(a_columns), transposed(b))), wanted));
    CHECK(same_bits(gather(matmul(a, transposed(b))), wanted));

    // Written through the map: the padding stays.
    matmul_into(a,
                gather(b).shape == shape ? from_function<double, P>(grid, {5, 5}, fill_c)
                                         : from_function<double, P>(grid, {5, 5}, fill_a),
                b);
    const auto product = serial_product<double>(5, 7, 5, fill_c, fill_b);
    bool right = true;
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < ld; ++j) {
        const double x = memory[static_cast<std::size_t>(i * ld + j)];
        right = right && x == (j < cols ? product(block.rows.begin + i, block.cols.begin + j) : -7777.0);
      }
    }
    CHECK(right);
    // A block of another shape, on all ranks.
    RowMajor large(rows + 1, cols);
    const auto wrong = [&] { (void)wrap<P>(grid, shape, large); };
    CHECK_THROWS_AS(wrong(), ShapeError);
    context.comm().barrier();
  });
}

TEST_CASE("a moved tensor takes its identity along, and moved-from ones may be assigned and destroyed") {
  on_ranks(4, [](ThreadContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using P = Summa2D<>;
    auto a = from_function<double, P>(grid, {6, 6}, fill_a);
    const auto b = from_function<double, P>(grid, {6, 6}, fill_b);
    const auto wanted = serial_product<double>(6, 6, 6, fill_a, fill_b);
    const index_t identity = a.identity().own;
    auto moved = std::move(a);
    CHECK(moved.identity().own == identity);
    CHECK(same_bits(gather(matmul(moved, b)), wanted));
    a = zeros<double, P>(grid, {6, 6});  // assigned again
    matmul_into(a, moved, b);
    CHECK(same_bits(gather(a), wanted));
    // The old block of the target is given up: products into it and from it are right.
    moved = std::move(a);
    auto c = zeros<double, P>(grid, {6, 6});
    matmul_into(c, moved, b);
    CHECK(same_bits(gather(c), serial_product<double>(6, 6, 6, wanted, fill_b)));
    std::vector<DistTensor<double, P, ThreadContext>> several;
    for (int i = 0; i < 5; ++i) several.push_back(from_function<double, P>(grid, {6, 6}, fill_a));
    for (const auto& x : several) CHECK(same_bits(gather(matmul(x, b)), wanted));
  });
}

}  // namespace
}  // namespace partita::test
