// SPDX-License-Identifier: Apache-2.0
// Where a product's matrices lie, seen from one rank: the rectangles it holds, and those that move in a panel.
#pragma once

#include "partita/matmul/geometry.hpp"
#include "partita/matmul/plan.hpp"
#include "partita/partition/blocks.hpp"
#include "partita/schedule/step.hpp"

namespace partita {

/// The global rectangles of one rank in C[m,n] = A[m,k]·B[k,n], by plan and geometry. Throughout, A and B stand for
/// op(A) and op(B).
class ProductFrame {
 public:
  constexpr ProductFrame(const ProductPlan& product, const ProductGeometry& geometry)
      : product_(product), geometry_(geometry) {
    const Plan& plan = product.plan;
    m_ = {geometry.m, geometry.a_units.rows};
    n_ = {geometry.n, geometry.b_units.cols};
    // An operand that is sliced along k is cut where the other one is.
    k_of_a_ = {geometry.k, plan.sliced == Side::left ? geometry.b_units.rows : geometry.a_units.cols};
    k_of_b_ = {geometry.k, plan.sliced == Side::right ? geometry.a_units.cols : geometry.b_units.rows};
    rows_ = block(m_, plan.left.rows);
    cols_ = block(n_, plan.right.cols);
    k_ = block(k_of_a_, plan.common);
  }

  [[nodiscard]] constexpr const ProductPlan& product() const noexcept { return product_; }
  [[nodiscard]] constexpr const Plan& plan() const noexcept { return product_.plan; }
  [[nodiscard]] constexpr const ProductGeometry& geometry() const noexcept { return geometry_; }
  [[nodiscard]] constexpr const Dimension& m() const noexcept { return m_; }
  [[nodiscard]] constexpr const Dimension& n() const noexcept { return n_; }
  [[nodiscard]] constexpr const Dimension& k_of_a() const noexcept { return k_of_a_; }
  [[nodiscard]] constexpr const Dimension& k_of_b() const noexcept { return k_of_b_; }
  /// The part of k that this rank's products run over: the block that `common` cuts.
  [[nodiscard]] constexpr Range k() const noexcept { return k_; }

  /// This rank's rectangles of A and B as the product uses them: after slicing.
  [[nodiscard]] constexpr Block a_block() const { return {rows_, block(k_of_a_, plan().left.cols)}; }
  [[nodiscard]] constexpr Block b_block() const { return {block(k_of_b_, plan().right.rows), cols_}; }
  /// Of C: before its pending sums are finished, and after.
  [[nodiscard]] constexpr Block natural_block() const { return c_block(plan().natural); }
  [[nodiscard]] constexpr Block result_block() const { return c_block(product_.result); }
  [[nodiscard]] constexpr Block c_block(const Layout& layout) const {
    return {block(m_, layout.rows), block(n_, layout.cols)};
  }

  /// The elements of a dimension that the axes leave this rank.
  [[nodiscard]] constexpr Range block(const Dimension& dimension, const AxisList& axes) const {
    return nested_block(dimension, axes, geometry_.extents, geometry_.coordinates);
  }
  [[nodiscard]] constexpr Range units(const Dimension& dimension, const AxisList& axes) const {
    return nested_units(dimension.units(), axes, geometry_.extents, geometry_.coordinates);
  }

  [[nodiscard]] constexpr bool sweeps_k() const noexcept {
    return plan().algorithm == Algorithm::stationary_c || plan().algorithm == Algorithm::local;
  }
  /// Whether the swept dimension is that of the operand's rows.
  [[nodiscard]] constexpr bool sweeps_rows_of(Operand operand) const noexcept {
    return plan().algorithm == Algorithm::stationary_b || (sweeps_k() && operand == Operand::b);
  }
  /// The rectangle of an operand when the swept dimension is restricted to `panel`.
  [[nodiscard]] constexpr Block panel_block(Operand operand, Range panel) const {
    const bool over_rows = sweeps_rows_of(operand);
    switch (operand) {
      case Operand::a:
        return over_rows ? Block{panel, k_} : Block{rows_, panel};
      case Operand::b:
        return over_rows ? Block{panel, cols_} : Block{k_, panel};
      default:
        return sweeps_k() ? Block{rows_, cols_} : over_rows ? Block{panel, cols_} : Block{rows_, panel};
    }
  }

  /// A step along some axes, with this rank's place in their group.
  [[nodiscard]] constexpr Step grouped(StepKind kind, Operand operand, const AxisList& axes) const {
    Step step;
    step.kind = kind;
    step.operand = operand;
    step.axes = axes.sorted();
    step.ranks = group_size(step.axes, geometry_.extents);
    step.self = index_along(step.axes, geometry_.extents, geometry_.coordinates);
    return step;
  }

 private:
  ProductPlan product_;
  ProductGeometry geometry_;
  Dimension m_, n_, k_of_a_, k_of_b_;
  Range rows_, cols_, k_;  // of A's rows, B's columns, and the common part of k
};

}  // namespace partita
