// SPDX-License-Identifier: Apache-2.0
// How a product without an algorithm is refused: one compile-time error whose type says it all, or a text at run time.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "partita/matmul/plan.hpp"
#include "partita/partition/names.hpp"

namespace partita {

/// The words of a refusal. The compiler prints them as template arguments.
template <class... Lists>
struct left {};
template <class... Lists>
struct right {};
template <class... Lists>
struct result {};
template <class Left, class Right>
struct product {};
template <class Left, class Right, class Result>
struct product_as {};
template <class... Lists>
struct redistribute_left_to {};
template <class... Lists>
struct redistribute_right_to {};
template <class... Lists>
struct ask_for_and_redistribute {};
struct all_reduce_left_first {};
struct all_reduce_right_first {};
/// Other reasons, before partitions are looked at.
template <class LeftScalar, class RightScalar>
struct give_both_one_scalar {};
template <class Scalar>
struct use_float_double_complex_half_or_bfloat16_instead_of {};
template <class LeftContext, class RightContext>
struct give_both_one_context {};
template <class LeftGrid, class RightGrid>
struct put_both_on_one_grid {};
template <class OperandsGrid, class ResultGrid>
struct ask_for_a_result_on_the_operands_grid {};
struct nothing_to_change {};

/// Stands in the condition of a refusal so that the compiler prints Operation and Remedy.
template <class Operation, class Remedy>
inline constexpr bool algorithm_exists_for = false;
template <class Operation>
inline constexpr bool algorithm_exists_for<Operation, nothing_to_change> = true;

namespace detail {

/// A partition's lists under a word; an empty pending set is left out.
template <template <class...> class Word, class P>
struct Spell;
template <template <class...> class Word, class G, class R, class C, class... S>
struct Spell<Word, Partition<G, R, C, PartialOver<S...>>> {
  using type = Word<R, C, PartialOver<S...>>;
};
template <template <class...> class Word, class G, class R, class C>
struct Spell<Word, Partition<G, R, C, PartialOver<>>> {
  using type = Word<R, C>;
};
template <template <class...> class Word, class P>
using spell_t = typename Spell<Word, P>::type;

}  // namespace detail

/// Why a plan was refused and what would work, in one line.
[[nodiscard]] inline std::string refusal_text(const Layout& a, const Layout& b, const ProductPlan& product,
                                              std::span<const std::string_view> names) {
  const Plan& plan = product.plan;
  const std::string pair = layout_text(a, names) + " x " + layout_text(b, names);
  const std::string remedy = layout_text(plan.remedy, names);
  switch (plan.refusal) {
    case Refusal::pending_left:
      return "matmul: " + pair + ": the left operand is a pending sum; all_reduce it to " + remedy + " first";
    case Refusal::pending_right:
      return "matmul: " + pair + ": the right operand is a pending sum; all_reduce it to " + remedy + " first";
    case Refusal::clash_and_extra: {
      const bool left_side = plan.remedy_side == Side::left;
      return "matmul: " + pair +
             ": no algorithm, since one axis cuts A's rows and B's columns while their cuts of k differ; " +
             "redistribute the " + (left_side ? "left" : "right") + " operand to " + remedy + " (an all-gather)";
    }
    case Refusal::result_unreachable:
      return "matmul: " + pair + " does not give " + layout_text(product.result, names) + "; ask for " + remedy +
             " and redistribute";
    case Refusal::none:
      break;
  }
  return {};
}

}  // namespace partita
