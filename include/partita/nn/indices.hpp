// SPDX-License-Identifier: Apache-2.0
// Ids and targets: checked on all ranks before any of them is used as an index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "partita/comm/agree.hpp"
#include "partita/nn/host_values.hpp"
#include "partita/nn/kernel/indices.hpp"
#include "partita/nn/local.hpp"
#include "partita/tensor/dist_tensor.hpp"

namespace partita::detail {

/// Throws ArgumentError on all ranks where an index of any rank is neither in [0, limit) nor `ignored`.
/// Communicates: one agreement.
template <class P, class Ctx>
void check_indices(const DistTensor<std::int64_t, P, Ctx>& indices, index_t limit, std::optional<std::int64_t> ignored,
                   const std::string& subject) {
  Ctx& context = indices.context();
  const View<std::int64_t> found(context.template workspace<std::int64_t>(0, 2), {1, 2});
  const kernel::FirstOutside check{indices.local(), limit, ignored.value_or(0), ignored.has_value(), found};
  for_each_index(context.backend(), 1, check);
  const auto [row, index] = host_values<2>(context, found);
  std::string objection;
  if (row >= 0) {
    objection = "ArgumentError: " + subject + ": row " + std::to_string(indices.block().rows.begin + row) +
                " asks for " + std::to_string(index) + ", there " +
                (limit > 0 ? "are 0 to " + std::to_string(limit - 1) : std::string("is none")) +
                (ignored ? ", and " + std::to_string(*ignored) + " is ignored" : std::string());
  }
  agree_or_throw<ArgumentError>(context.comm(), objection);
}

/// Throws on all ranks where targets do not go with logits [M, V]: ShapeError where they are not [M, 1], UnitError
/// where they are cut elsewhere, ArgumentError where one is neither in [0, V) nor `ignored`.
template <class T, class P, class Q, class Ctx>
void check_targets(const DistTensor<T, P, Ctx>& logits, const DistTensor<std::int64_t, Q, Ctx>& targets,
                   std::int64_t ignored, const std::string& subject) {
  if (targets.shape() != Shape{logits.shape().rows, 1}) {
    throw ShapeError("ShapeError: " + subject + " of logits of " + to_string(logits.shape()) +
                     " takes one target for each row, got " + to_string(targets.shape()));
  }
  if (targets.units().rows != logits.units().rows) {
    throw UnitError("UnitError: " + subject + " of logits with a row unit of " + std::to_string(logits.units().rows) +
                    ", and targets with one of " + std::to_string(targets.units().rows));
  }
  check_indices(targets, logits.shape().cols, ignored, subject);
}

}  // namespace partita::detail
