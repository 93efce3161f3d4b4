// SPDX-License-Identifier: Apache-2.0
// MatmulRule: what two partitions mean for a product. Derived from their axes; anybody may specialise it.
#pragma once

#include <type_traits>

#include "partita/matmul/refusal.hpp"
#include "partita/matmul/run.hpp"

namespace partita {

/// Stands for "the rule's own result, with every pending sum all-reduced".
struct automatic {};

namespace detail {

template <class L, class R, class Asked>
constexpr ProductPlan derive_plan() {
  if constexpr (std::is_same_v<Asked, automatic>) {
    return plan_product(L::layout, R::layout);
  } else {
    return plan_product(L::layout, R::layout, Asked::layout);
  }
}

template <ProductPlan (*Derive)()>
struct ResultLayout {
  static constexpr Layout value = Derive().result;
};
template <ProductPlan (*Derive)()>
struct RemedyLayout {
  static constexpr Layout value = Derive().plan.remedy;
};

}  // namespace detail

/// The rule derived from the axes of L and R (see Plan). `Asked` is the partition that the result must have.
template <class L, class R, class Asked = automatic>
struct DerivedRule {
  using grid_type = meet_grids_t<typename L::grid_type, typename R::grid_type>;
  static constexpr ProductPlan plan = detail::derive_plan<L, R, Asked>();
  static constexpr bool valid = plan.valid();
  /// The partition of the result.
  using result = typename detail::PartitionOf<grid_type, detail::ResultLayout<&detail::derive_plan<L, R, Asked>>>::type;
  /// Where refused: the partition that a remedy names.
  using remedy = typename detail::PartitionOf<grid_type, detail::RemedyLayout<&detail::derive_plan<L, R, Asked>>>::type;

  /// One rank's steps.
  [[nodiscard]] static constexpr ProductSchedule schedule(const ProductGeometry& geometry,
                                                          const MatmulOptions& options) {
    return schedule_product(plan, geometry, options);
  }
  /// Runs them. Pre: shapes, grids and aliasing are checked.
  template <class T, class Out, class Ctx>
  static void run(const ProductCall<T, Out, Ctx>& call, const ProductGeometry& geometry, const MatmulOptions& options) {
    run_product(call, plan, geometry, options);
  }
};

/// The point of extension. A specialisation for a pair of partitions gives
///   result                          the partition of the product
///   valid                           true
///   schedule(geometry, options)     one rank's steps: for_each(f) and workspace(), see schedule/count.hpp
///   run(call, geometry, options)    runs exactly these steps
/// and is used wherever no other result is asked for; matmul() checks shapes and aliasing before it.
template <class L, class R>
struct MatmulRule : DerivedRule<L, R> {};

namespace detail {

template <class L, class R, class Asked>
struct RuleFor {
  using type = DerivedRule<L, R, Asked>;
};
template <class L, class R, class Asked>
  requires(std::is_same_v<Asked, automatic> || std::is_same_v<Asked, typename MatmulRule<L, R>::result>)
struct RuleFor<L, R, Asked> {
  using type = MatmulRule<L, R>;
};
template <class L, class R, class Asked>
using rule_for = typename RuleFor<L, R, Asked>::type;

/// What a refusal prints: the operation, spelt with both operands, and what would work.
template <class L, class R, class Asked, class Rule>
struct Refusing {
  using operation = product<spell_t<left, L>, spell_t<right, R>>;
  using remedy = nothing_to_change;
};
template <class L, class R, class Asked, class Rule>
  requires(!Rule::valid)
struct Refusing<L, R, Asked, Rule> {
  static constexpr Refusal why = Rule::plan.plan.refusal;
  static constexpr bool left_side = Rule::plan.plan.remedy_side == Side::left;
  using change = typename Rule::remedy;
  template <bool AsksResult, class A>
  struct Asking {
    using type = product<spell_t<left, L>, spell_t<right, R>>;
  };
  template <class A>
  struct Asking<true, A> {
    using type = product_as<spell_t<left, L>, spell_t<right, R>, spell_t<partita::result, A>>;
  };
  using operation = typename Asking<why == Refusal::result_unreachable, Asked>::type;
  using remedy = std::conditional_t<
      why == Refusal::pending_left, all_reduce_left_first,
      std::conditional_t<
          why == Refusal::pending_right, all_reduce_right_first,
          std::conditional_t<why == Refusal::result_unreachable, spell_t<ask_for_and_redistribute, change>,
                             std::conditional_t<left_side, spell_t<redistribute_left_to, change>,
                                                spell_t<redistribute_right_to, change>>>>>;
};

}  // namespace detail
}  // namespace partita
