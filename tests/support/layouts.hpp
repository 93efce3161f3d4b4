// SPDX-License-Identifier: Apache-2.0
// All partitions over three axes, and the rows of the multiplication table, as layouts.
#pragma once

#include <array>
#include <string_view>

#include "partita/matmul/plan.hpp"
#include "partita/partition/policies.hpp"

namespace partita::test {

inline constexpr std::string_view names_1d[] = {"Tp"};
inline constexpr std::string_view names_2d[] = {"Row", "Col"};
inline constexpr std::string_view names_25d[] = {"Depth", "Row", "Col"};

/// The 49 partitions without pending sums over three axes: every pair of ordered lists without a common axis.
constexpr std::array<Layout, 49> all_layouts() {
  constexpr int lists[16][4] = {{0},          {1, 0},       {1, 1},       {1, 2},      {2, 0, 1},    {2, 1, 0},
                                {2, 0, 2},    {2, 2, 0},    {2, 1, 2},    {2, 2, 1},   {3, 0, 1, 2}, {3, 0, 2, 1},
                                {3, 1, 0, 2}, {3, 1, 2, 0}, {3, 2, 0, 1}, {3, 2, 1, 0}};
  const auto list = [](const int(&axes)[4]) {
    AxisList out;
    for (int i = 1; i <= axes[0]; ++i) out.push_back(axes[i]);
    return out;
  };
  std::array<Layout, 49> all{};
  std::size_t n = 0;
  for (const auto& rows : lists) {
    for (const auto& cols : lists) {
      if (!list(rows).meets(list(cols))) all[n++] = {list(rows), list(cols), {}};
    }
  }
  return n == 49 ? all : throw "there are 49 partitions over three axes";
}

/// A row of the multiplication table.
struct TableRow {
  std::string_view name;
  int axes;  // of the grid
  Layout a, b;
};

inline constexpr TableRow table_rows[] = {
    {"Replicated x ColumnShard", 1, Replicated<>::layout, ColumnShard<>::layout},
    {"ColumnShard x RowShard", 1, ColumnShard<>::layout, RowShard<>::layout},
    {"RowShard x ColumnShard", 1, RowShard<>::layout, ColumnShard<>::layout},
    {"RowShard x Replicated", 1, RowShard<>::layout, Replicated<>::layout},
    {"transposed(RowShard) x RowShard", 1, transposed_t<RowShard<>>::layout, RowShard<>::layout},
    {"Summa2D x Summa2D", 2, Summa2D<>::layout, Summa2D<>::layout},
    {"Summa2D x transposed(Summa2D)", 2, Summa2D<>::layout, transposed_t<Summa2D<>>::layout},
    {"transposed(Summa2D) x Summa2D", 2, transposed_t<Summa2D<>>::layout, Summa2D<>::layout},
    {"Summa25D x Summa25DWeight", 3, Summa25D<>::layout, Summa25DWeight<>::layout},
    {"Summa25D x transposed(Summa25DWeight)", 3, Summa25D<>::layout, transposed_t<Summa25DWeight<>>::layout},
    {"transposed(Summa25D) x Summa25D", 3, transposed_t<Summa25D<>>::layout, Summa25D<>::layout},
    {"SplitKLeft x SplitKRight", 3, SplitKLeft<>::layout, SplitKRight<>::layout},
};

}  // namespace partita::test
