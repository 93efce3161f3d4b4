// SPDX-License-Identifier: Apache-2.0
// Sums that are repeated by mistake are found by CheckedComm, and others are not, as one rank of any kind.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "partita/comm/checked.hpp"
#include "support/user_memory.hpp"

namespace partita::test {

/// Sums of n elements with gaps. On 3 ranks of a CheckedComm.
template <class Ctx>
void check_repeated_sums(Ctx& context, index_t n) {
  auto& comm = context.comm();
  UserMemory<double, Ctx> x(context, 2 * n, comm.rank() + 1.0);
  const View<double> v(x.data(), n, 1, 2);
  const auto sum = [&] { comm.all_reduce(v, v).wait(); };
  const auto last = [&] { return elements_of(context, v)(n - 1, 0); };
  sum();
  CHECK_THROWS_AS(sum(), RepeatedSum);
  CHECK(last() == 6);
  comm.barrier();
  CHECK_THROWS_AS(sum(), RepeatedSum);
  comm.touched(v);
  sum();
  CHECK(last() == 18);
  comm.broadcast(v, 0).wait();  // writes it
  comm.touched(v);
  sum();
  // A change of one element on one rank is enough.
  if (comm.rank() == 1)
    set_elements(context, v.sub({{n / 2, n / 2 + 1}, {0, 1}}), [](index_t, index_t) { return 1.0; });
  sum();
  // So is another view, another operation, or an output elsewhere.
  comm.all_reduce(v, v, ReduceOp::max).wait();
  UserMemory<double, Ctx> y(context, n, 0);
  for (int i = 0; i < 3; ++i) comm.all_reduce(v, View<double>(y.data(), {n, 1})).wait();
  // What a sum does not change is no mistake.
  for (const double idle : {0.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    set_elements(context, v, [idle](index_t, index_t) { return idle; });
    for (int i = 0; i < 3; ++i) sum();
  }
  comm.close();
}

/// Where they are not asked for. On 2 ranks of a CheckedComm.
template <class Ctx>
void check_sums_unchecked(Ctx& context, index_t n) {
  UserMemory<double, Ctx> x(context, n, 1);
  for (int i = 0; i < 4; ++i) context.comm().all_reduce(x.row(), x.row()).wait();
  CHECK(elements_of(context, x.row())(0, n - 1) == 16);
}

}  // namespace partita::test
