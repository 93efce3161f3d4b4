// SPDX-License-Identifier: Apache-2.0
// What a product checks before it moves or writes anything: only facts on which all ranks agree.
#pragma once

#include <string>

#include "partita/grid/process_grid.hpp"
#include "partita/matmul/geometry.hpp"
#include "partita/matmul/plan.hpp"
#include "partita/tensor/memory_identity.hpp"

namespace partita::detail {

/// Shapes and units of op(A) and op(B), and those of C where it is given.
struct ProductShapes {
  Shape a;
  Shape b;
  Units a_units;
  Units b_units;
};

inline void check_shapes(const ProductShapes& s) {
  if (s.a.cols == s.b.rows) return;
  throw ShapeError("ShapeError: matmul of " + to_string(s.a) + " by " + to_string(s.b) + ": the left operand has " +
                   std::to_string(s.a.cols) + " columns, the right one " + std::to_string(s.b.rows) + " rows");
}

/// Blocks along k meet only if both sides cut it at the same places. `cut` is common before any slicing.
inline void check_units(const ProductShapes& s, const AxisList& a_cols, const AxisList& b_rows) {
  if (common_prefix(a_cols, b_rows).empty() || s.a_units.cols == s.b_units.rows) return;
  throw UnitError("UnitError: matmul cuts k in units of " + std::to_string(s.a_units.cols) + " on the left and " +
                  std::to_string(s.b_units.rows) + " on the right; give both the same unit");
}

inline void check_result(const ProductShapes& s, Shape c, Units c_units) {
  const Shape expected{s.a.rows, s.b.cols};
  if (c != expected) {
    throw ShapeError("ShapeError: matmul of " + to_string(s.a) + " by " + to_string(s.b) + " gives " +
                     to_string(expected) + ", the result passed has " + to_string(c));
  }
  if (c_units != Units{s.a_units.rows, s.b_units.cols}) {
    throw UnitError("UnitError: the result passed to matmul is cut in units of " + std::to_string(c_units.rows) +
                    " and " + std::to_string(c_units.cols) + "; the product's are " + std::to_string(s.a_units.rows) +
                    " (rows of the left operand) and " + std::to_string(s.b_units.cols) +
                    " (columns of the right one)");
  }
}

inline void check_alias(const MemoryIdentity& c, const MemoryIdentity& a, const MemoryIdentity& b) {
  const bool with_left = c.shares_memory_with(a);
  if (!with_left && !c.shares_memory_with(b)) return;
  throw AliasError(std::string("AliasError: the result of matmul shares memory with its ") +
                   (with_left ? "left" : "right") + " operand; multiply into another tensor, or clone() the operand");
}

/// Operands may lie on two grid objects, if these arrange the same ranks the same way.
template <class Ctx>
void check_grids(const ProcessGrid<Ctx>& a, const ProcessGrid<Ctx>& b) {
  if (&a == &b || (&a.context() == &b.context() && a.extents() == b.extents())) return;
  const auto text = [](const ProcessGrid<Ctx>& grid) {
    std::string out;
    for (const int axis : grid.axes()) {
      out += (out.empty() ? "" : ", ") + std::string(grid.name(axis)) + " " +
             std::to_string(grid.extents()[static_cast<unsigned>(axis)]);
    }
    return "{" + out + "}";
  };
  throw GridError("GridError: matmul of operands on different grids: " + text(a) + " and " + text(b) +
                  (&a.context() == &b.context() ? "" : ", of different contexts"));
}

}  // namespace partita::detail
