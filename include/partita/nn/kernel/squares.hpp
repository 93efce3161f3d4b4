// SPDX-License-Identifier: Apache-2.0
// Local work of a norm: the sum of squares of a block, in double.
#pragma once

#include "partita/base/view.hpp"

namespace partita::kernel {

/// sums(0, s) += the squares of the rows s, s + n, s + 2n, … of `in`, n being the number of sums. Index: the sum s.
template <class A>
struct AddSquares {
  View<const A> in;
  View<double> sums;  // 1×n

  constexpr auto with_views(auto&& f) { return f(in, sums); }
  constexpr void operator()(index_t s) const {
    double sum = 0;
    for (index_t i = s; i < in.rows; i += sums.cols) {
      for (index_t j = 0; j < in.cols; ++j) {
        const auto x = static_cast<double>(in(i, j));
        sum += x * x;
      }
    }
    sums(0, s) += sum;
  }
};

/// out = the sum of all of `in`, from the first to the last. Index: 0.
struct AddUp {
  View<const double> in;  // 1×n
  View<double> out;       // 1×1

  constexpr auto with_views(auto&& f) { return f(in, out); }
  constexpr void operator()(index_t) const {
    double sum = 0;
    for (index_t j = 0; j < in.cols; ++j) sum += in(0, j);
    out(0, 0) = sum;
  }
};

}  // namespace partita::kernel
