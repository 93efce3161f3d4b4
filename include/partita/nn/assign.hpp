// SPDX-License-Identifier: Apache-2.0
// Values for a parameter from a whole matrix that every rank holds.
#pragma once

#include <string>

#include "partita/base/error.hpp"
#include "partita/tensor/gather.hpp"

namespace partita {

/// How a stored weight is indexed: by input then output feature, as Y = X·W reads it, or the other way round.
enum class WeightOrder { in_out, out_in };

/// tensor = whole, or whole transposed where its order is out_in; each rank copies its block of what all ranks hold.
/// Errors, the same on all ranks: ShapeError where the shapes do not fit.
template <class T, class P, class Ctx>
void assign(DistTensor<T, P, Ctx>& tensor, const Matrix<T>& whole, WeightOrder order = WeightOrder::in_out) {
  const bool turned = order == WeightOrder::out_in;
  const Shape given = turned ? whole.shape.transposed() : whole.shape;
  if (given != tensor.shape()) {
    throw ShapeError("ShapeError: assign() of a matrix of " + to_string(whole.shape) +
                     (turned ? " stored [out, in]" : " stored [in, out]") + " to a tensor of " +
                     to_string(tensor.shape()));
  }
  const Block block = tensor.block();
  detail::fill(tensor.context().backend(), tensor.local(), [&](View<T> local) {
    for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
      for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
        local(i - block.rows.begin, j - block.cols.begin) = turned ? whole(j, i) : whole(i, j);
      }
    }
  });
}

}  // namespace partita
