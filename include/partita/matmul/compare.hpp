// SPDX-License-Identifier: Apache-2.0
// Under a checking communicator, ranks compare a product before its first step: one that is not the same on all ranks
// is refused on all, while nothing has moved or is lent.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "partita/comm/checked/product.hpp"
#include "partita/matmul/schedule.hpp"

namespace partita::detail {

constexpr std::uint64_t hash_axes(std::uint64_t h, const AxisList& axes) noexcept {
  h = mix(h, static_cast<std::uint64_t>(axes.size()));
  for (const int axis : axes) h = mix(h, static_cast<std::uint64_t>(axis));
  return h;
}

constexpr std::uint64_t hash_layout(std::uint64_t h, const Layout& layout) noexcept {
  return hash_axes(hash_axes(hash_axes(h, layout.rows), layout.cols), layout.partial);
}

/// Partitions, algorithm, grid, units and options: only what is the same on all ranks, of which slices() is not.
constexpr std::uint64_t hash_schedule(const ProductSchedule& schedule) noexcept {
  const ProductPlan& product = schedule.frame().product();
  const ProductGeometry& geometry = schedule.frame().geometry();
  std::uint64_t h = static_cast<std::uint64_t>(product.plan.algorithm);
  for (const Layout* layout : {&product.plan.left, &product.plan.right, &product.plan.natural, &product.result}) {
    h = hash_layout(h, *layout);
  }
  for (const int extent : geometry.extents) h = mix(h, static_cast<std::uint64_t>(extent));
  for (const index_t number : {geometry.a_units.rows, geometry.a_units.cols, geometry.b_units.rows,
                               geometry.b_units.cols, schedule.panel_width(), index_t{schedule.lookahead()},
                               index_t{schedule.panels() == PanelMove::all_gather}, schedule.sums().asked()}) {
    h = mix(h, static_cast<std::uint64_t>(number));
  }
  return h;
}

/// Throws on all ranks unless all come with the same product: m, n, k, scalar, factors, orientation of the operands,
/// and `rest`, a hash of whatever else must agree. Communicates: a comparison, where the communicator compares; else
/// nothing. `call` is a ProductCall or an AcrossCall of elements T.
template <class T, class Call, class Rest>
void compare_calls(const Call& call, index_t m, index_t n, index_t k, Rest hash_of_rest) {
  auto& comm = call.grid->context().comm();
  if constexpr (ComparesProducts<std::remove_reference_t<decltype(comm)>>) {
    std::uint64_t rest = hash_of_rest();
    for (const auto* operand : {&call.a, &call.b}) {
      rest = mix(rest, (operand->transposed ? 2U : 0U) + (operand->conjugated ? 1U : 0U));
    }
    for (const auto factor : {call.alpha, call.beta}) {
      rest = mix(rest, std::bit_cast<std::uint64_t>(static_cast<double>(std::imag(factor))));
    }
    comm.check_product({m, n, k, type_code<T>(), sizeof(T), static_cast<double>(std::real(call.alpha)),
                        static_cast<double>(std::real(call.beta)), rest});
  }
}

template <class T, class Call>
void compare_product(const Call& call, const ProductSchedule& schedule) {
  const ProductGeometry& geometry = schedule.frame().geometry();
  compare_calls<T>(call, geometry.m, geometry.n, geometry.k, [&] { return hash_schedule(schedule); });
}

}  // namespace partita::detail
