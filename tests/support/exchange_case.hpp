// SPDX-License-Identifier: Apache-2.0
// One redistribution between layouts, as one rank of any kind, against what each element tells of its place.
#pragma once

#include <string>

#include "partita/redistribute/redistribute.hpp"
#include "partita/schedule/count.hpp"
#include "support/test_ranks.hpp"

namespace partita::test {

/// Moves a matrix whose element (i, j) tells its place, and checks each element of the new block, and the count; what
/// is wrong, in words. The context's communicator is a CountingComm over one that counts what it moves.
template <class T, class Ctx>
std::string check_exchange(Ctx& context, Shape shape, const Placement& from, const Placement& to) {
  const Exchange exchange(shape, from, to, context.rank());
  const auto value = [](index_t i, index_t j) { return static_cast<T>(i * 31 + j + 1); };
  const Block held = exchange.held();
  const Block wanted = exchange.wanted();
  const Memory in = context.template allocate<T>(held.size());
  const Memory out = context.template allocate<T>(wanted.size());
  const View<T> before(reinterpret_cast<T*>(in.get()), held.shape());
  const View<T> after(reinterpret_cast<T*>(out.get()), wanted.shape());
  set_elements(context, before, [&](index_t i, index_t j) { return value(held.rows.begin + i, held.cols.begin + j); });
  set_elements(context, after, [](index_t, index_t) { return T{}; });
  context.comm().barrier();
  const Traffic start = context.comm().traffic();
  const Traffic touched_start = context.comm().base().traffic();
  context.comm().barrier();
  detail::run_exchange<T>(context, exchange, before, after);
  context.comm().barrier();
  const Traffic moved = context.comm().traffic() - start;
  if (moved != context.comm().base().traffic() - touched_start) return "calls and touched memory count differently";
  const Count count = count_of(exchange);
  if (count.elements != moved.elements || count.messages != moved.messages) return "the schedule counts otherwise";
  const Matrix<T> found = elements_of(context, after);
  index_t missing = 0;
  for (index_t i = 0; i < after.rows; ++i) {
    for (index_t j = 0; j < after.cols; ++j) {
      const index_t row = wanted.rows.begin + i;
      const index_t col = wanted.cols.begin + j;
      if (found(i, j) != value(row, col)) return "an element is wrong";
      if (!held.rows.contains(row) || !held.cols.contains(col)) ++missing;
    }
  }
  if (missing != moved.elements) return "moved other than exactly what was missing";
  return {};
}

}  // namespace partita::test
