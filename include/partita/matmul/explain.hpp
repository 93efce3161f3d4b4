// SPDX-License-Identifier: Apache-2.0
// What matmul would do, in words: algorithm, movement, this rank's steps and their price.
#pragma once

#include <string>
#include <vector>

#include "partita/matmul/matmul.hpp"
#include "partita/schedule/text.hpp"

namespace partita {

[[nodiscard]] constexpr std::string_view name_of(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::local:
      return "local";
    case Algorithm::stationary_c:
      return "stationary C";
    case Algorithm::stationary_a:
      return "stationary A";
    case Algorithm::stationary_b:
      return "stationary B";
    case Algorithm::refused:
      break;
  }
  return "refused";
}

/// One line for a plan: "stationary C: each k-panel of A broadcast along Col, each k-panel of B broadcast along Row";
/// `sliced` where panels move as slices of all owners' blocks.
[[nodiscard]] inline std::string plan_text(const ProductPlan& product, std::span<const std::string_view> names,
                                           bool sliced = false) {
  const Plan& plan = product.plan;
  std::string text(name_of(plan.algorithm));
  if (plan.sliced != Side::none) text += plan.sliced == Side::left ? ", A sliced in place" : ", B sliced in place";
  std::string moves;
  const auto add = [&](const std::string& what) { moves += (moves.empty() ? ": " : ", ") + what; };
  const std::string swept = plan.algorithm == Algorithm::stationary_a   ? "n"
                            : plan.algorithm == Algorithm::stationary_b ? "m"
                                                                        : "k";
  const std::string move = sliced ? " gathered in slices along " : " broadcast along ";
  if (!plan.incoming_a.empty()) add("each " + swept + "-panel of A" + move + axes_text(plan.incoming_a, names));
  if (!plan.incoming_b.empty()) add("each " + swept + "-panel of B" + move + axes_text(plan.incoming_b, names));
  if (!plan.outgoing.empty()) {
    add(std::string("partial products ") + (sliced ? "scattered in slices" : "reduced") + " along " +
        axes_text(plan.outgoing, names));
  }
  const Finish& finish = product.finish;
  if (!finish.scatter_rows.empty()) add("reduce_scatter of rows along " + axes_text(finish.scatter_rows, names));
  if (!finish.scatter_cols.empty()) add("reduce_scatter of columns along " + axes_text(finish.scatter_cols, names));
  if (!finish.all_reduce.empty()) add("all_reduce along " + axes_text(finish.all_reduce, names));
  return text + moves;
}

/// The algorithm, the result and this rank's first `most_steps` steps of matmul<Result>(a, b), with their price.
/// Errors: those of matmul for shapes, units and grids. Communicates: nothing.
template <class Result = automatic, TensorLike A, TensorLike B>
[[nodiscard]] std::string explain(const A& a, const B& b, const MatmulOptions& options = {}, int most_steps = 12) {
  const auto left_view = as_view(a);
  const auto right_view = as_view(b);
  using Left = std::remove_const_t<decltype(left_view)>;
  using Right = std::remove_const_t<decltype(right_view)>;
  using Types = detail::ProductTypes<Left, Right, Result>;
  static_assert(algorithm_exists_for<typename Types::operation, typename Types::remedy>,
                "matmul: no algorithm multiplies these operands");
  if constexpr (Types::accepted) {
    detail::check_operands(left_view, right_view);
    const auto& grid = left_view.grid.ranks();
    const auto names = std::span<const std::string_view>(Left::partition::grid_type::names);
    const auto schedule = Types::rule::schedule(product_geometry(left_view, right_view), options);
    std::string text = "matmul " + layout_text(Left::partition::layout, names) + " x " +
                       layout_text(Right::partition::layout, names) + " -> " +
                       layout_text(Types::result::layout, names) + "\n";
    if constexpr (requires { Types::rule::plan; }) {
      bool sliced = false;
      if constexpr (requires { schedule.sliced_panels(); }) sliced = schedule.sliced_panels();
      text += plan_text(Types::rule::plan, names, sliced) + "\n";
    }
    text += "m " + std::to_string(left_view.shape.rows) + ", n " + std::to_string(right_view.shape.cols) + ", k " +
            std::to_string(left_view.shape.cols) + " on " + detail::grid_text(names, grid.extents()) + "; rank " +
            std::to_string(grid.context().rank()) + ":\n";
    return text + steps_text(schedule, names, most_steps) + to_string(count_of(schedule)) + "\n";
  } else {
    return {};
  }
}

}  // namespace partita
