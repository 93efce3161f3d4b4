// SPDX-License-Identifier: Apache-2.0
// A policy that is chosen at run time: one alternative of a variant, with the partitions of both operands as types.
#pragma once

#include <string_view>
#include <variant>

#include "grid_options.hpp"
#include "partita/partition/policies.hpp"

namespace matmul_files {

using namespace partita;

/// The partitions of op(A) and op(B). Extents are dynamic: they come from the command line.
template <class Left, class Right>
struct Policy {
  using left = Left;
  using right = Right;
  using grid = typename Left::grid_type;
};

using WeightGradient = Policy<transposed_t<Summa25D<>>, Summa25D<>>;
using WeightGradientTransposed = Policy<transposed_t<Summa25D<>>, transposed_t<Summa25D<>>>;

using AnyPolicy = std::variant<Policy<Replicated<>, Replicated<>>,    //
                               Policy<Replicated<>, ColumnShard<>>,   //
                               Policy<ColumnShard<>, RowShard<>>,     //
                               Policy<Summa2D<>, Summa2D<>>,          //
                               Policy<Summa25D<>, Summa25DWeight<>>,  //
                               Policy<SplitKLeft<>, SplitKRight<>>,   //
                               WeightGradient, WeightGradientTransposed>;

struct PolicyName {
  std::string_view name;
  GridKind grid;
  AnyPolicy policy;
};

inline const PolicyName policy_names[] = {
    {"replicated", GridKind::line, Policy<Replicated<>, Replicated<>>{}},
    {"column", GridKind::line, Policy<Replicated<>, ColumnShard<>>{}},
    {"row", GridKind::line, Policy<ColumnShard<>, RowShard<>>{}},
    {"summa2d", GridKind::rectangle, Policy<Summa2D<>, Summa2D<>>{}},
    {"summa25d", GridKind::layers, Policy<Summa25D<>, Summa25DWeight<>>{}},
    {"splitk", GridKind::layers, Policy<SplitKLeft<>, SplitKRight<>>{}},
};

/// The policy of that name for operands stored as they are or transposed. A transposed operand is stored in the
/// transposed partition, so nothing changes here, but for X^T dY under summa25d: X and dY are both activations.
/// Pre: `name` is one of policy_names.
inline AnyPolicy find_policy(std::string_view name, bool transpose_a, bool transpose_b) {
  if (name == "summa25d" && transpose_a) {
    return transpose_b ? AnyPolicy(WeightGradientTransposed{}) : AnyPolicy(WeightGradient{});
  }
  AnyPolicy found;
  for (const PolicyName& entry : policy_names) {
    if (entry.name == name) found = entry.policy;
  }
  return found;
}

}  // namespace matmul_files
