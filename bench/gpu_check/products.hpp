// SPDX-License-Identifier: Apache-2.0
// Every pair of named partitions on exact data: each element is the serial one, and repeats give the same bits.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "partita/backend/cuda.hpp"
#include "partita/partita.hpp"
#include "records.hpp"

namespace gpu_check {

using namespace partita;

/// Integers so small that every partial sum is exact in every scalar but bfloat16's result, which is rounded once.
constexpr auto left_value = [](index_t i, index_t l) { return (i * 7 + l * 3) % 9 - 4; };
constexpr auto right_value = [](index_t l, index_t j) { return (l * 5 + j * 11) % 7 - 3; };

/// The block of a device tensor, on the host.
template <class T, class P, class Ctx>
std::vector<T> host_block(const DistTensor<T, P, Ctx>& x) {
  std::vector<T> values(static_cast<std::size_t>(x.local().size()));
  x.context().sync();
  x.context().backend().template copy<T>(x.local(), View<T>(values.data(), x.local().shape()));
  x.context().sync();
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Two stored partitions, the result's or `automatic`, and which operand the product reads transposed.
template <class Left, class Right, class ResultT = automatic, bool turn_left = false, bool turn_right = false>
struct Pair {
  using L = Left;
  using R = Right;
  using Result = ResultT;

  template <class A, class B>
  static auto multiply(const A& a, const B& b) {
    if constexpr (turn_left) {
      return matmul<Result>(transposed(a), b);
    } else if constexpr (turn_right) {
      return matmul<Result>(a, transposed(b));
    } else {
      return matmul<Result>(a, b);
    }
  }
  static constexpr bool left_turned = turn_left;
  static constexpr bool right_turned = turn_right;
};

/// Whether the product of an m×k and a k×n matrix is right on all ranks, and has the same bits in all repeats.
template <class T, class PairT, class Ctx>
bool check_product(Ctx& context, const std::vector<int>& extents, Shape c_shape, index_t k, int repeats) {
  const auto grid = make_grid_of<typename PairT::L::grid_type>(context, extents);
  const auto stored = []<class P, bool turned>(const auto& on, Shape shape, auto value) {
    return from_function<T, P>(on, turned ? shape.transposed() : shape, [=](index_t i, index_t j) {
      return static_cast<float>(turned ? value(j, i) : value(i, j));
    });
  };
  const auto a = stored.template operator()<typename PairT::L, PairT::left_turned>(grid, {c_shape.rows, k}, left_value);
  const auto b =
      stored.template operator()<typename PairT::R, PairT::right_turned>(grid, {k, c_shape.cols}, right_value);
  const auto c = PairT::multiply(a, b);
  const std::vector<T> first = host_block(c);
  const Block block = c.block();
  bool right = true;
  std::size_t at = 0;
  for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
    for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
      index_t sum = 0;
      for (index_t l = 0; l < k; ++l) sum += left_value(i, l) * right_value(l, j);
      right = same_bits<T>({first[at++]}, {static_cast<T>(static_cast<float>(sum))}) && right;
    }
  }
  for (int i = 1; i < repeats; ++i) right = same_bits(first, host_block(PairT::multiply(a, b))) && right;
  return context.comm().agree(right ? 0 : 1) == 0;
}

/// Checks all pairs with scalar T on 1, 4 or 8 ranks; rank 0 notes them.
template <class T, class Ctx>
void check_products(Ctx& context, const std::string& section, const std::string& scalar, int repeats,
                    Records& records) {
  const int p = context.size();
  const std::vector<int> line{p}, rectangle{p == 1 ? 1 : 2, p == 1 ? 1 : p / 2},
      layers{p == 8 ? 2 : 1, p == 1 ? 1 : 2, p == 1 ? 1 : 2};
  const auto check = [&]<class PairT>(PairT, const char* name, const std::vector<int>& extents) {
    bool right = true;
    for (const auto& [m, n, k] : {std::array<index_t, 3>{128, 64, 96}, {61, 47, 53}, {5, 3, 2}}) {
      right = check_product<T, PairT>(context, extents, {m, n}, k, repeats) && right;
    }
    if (context.rank() == 0) {
      records.add({.section = section, .what = std::string(name) + ", " + scalar, .ranks = p, .right = right});
    }
  };
  constexpr bool turned = true;
  check(Pair<Replicated<>, ColumnShard<>>{}, "Replicated x ColumnShard", line);
  check(Pair<ColumnShard<>, RowShard<>>{}, "ColumnShard x RowShard, all_reduce", line);
  check(Pair<ColumnShard<>, RowShard<>, RowShard<>>{}, "ColumnShard x RowShard, reduce_scatter", line);
  check(Pair<RowShard<>, ColumnShard<>>{}, "RowShard x ColumnShard", line);
  check(Pair<RowShard<>, RowShard<>, automatic, turned>{}, "transposed(RowShard) x RowShard", line);
  check(Pair<Summa2D<>, Summa2D<>>{}, "Summa2D x Summa2D", rectangle);
  check(Pair<Summa2D<>, Summa2D<>, automatic, false, turned>{}, "Summa2D x transposed(Summa2D)", rectangle);
  check(Pair<Summa2D<>, Summa2D<>, automatic, turned>{}, "transposed(Summa2D) x Summa2D", rectangle);
  check(Pair<Summa25D<>, Summa25DWeight<>>{}, "Summa25D x Summa25DWeight", layers);
  check(Pair<Summa25D<>, Summa25DWeight<>, automatic, false, turned>{}, "Summa25D x transposed(Summa25DWeight)",
        layers);
  check(Pair<Summa25D<>, Summa25D<>, automatic, turned>{}, "transposed(Summa25D) x Summa25D", layers);
  check(Pair<SplitKLeft<>, SplitKRight<>>{}, "SplitKLeft x SplitKRight", layers);
}

}  // namespace gpu_check
