// SPDX-License-Identifier: Apache-2.0
// Local work of loss scaling: gradients back from their scale, and whether all are finite.
#pragma once

#include "partita/base/view.hpp"

namespace partita::kernel {

/// x *= factor for the rows s, s + n, s + 2n, …, and bad(0, s) = 1 where an element of these is not finite, n being the
/// number of flags. Index: the flag s.
template <class A>
struct Unscale {
  View<A> x;
  A factor;
  View<index_t> bad;  // 1×n

  constexpr auto with_views(auto&& f) { return f(x, bad); }
  constexpr void operator()(index_t s) const {
    for (index_t i = s; i < x.rows; i += bad.cols) {
      for (index_t j = 0; j < x.cols; ++j) {
        const A value = x(i, j) * factor;
        x(i, j) = value;
        if (!(value - value == A(0))) bad(0, s) = 1;
      }
    }
  }
};

}  // namespace partita::kernel
