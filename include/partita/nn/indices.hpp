// SPDX-License-Identifier: Apache-2.0
// Ids and targets: checked on all ranks before any of them is used as an index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "partita/comm/agree.hpp"
#include "partita/nn/kernel/indices.hpp"
#include "partita/nn/local.hpp"
#include "partita/tensor/dist_tensor.hpp"

namespace partita::detail {

/// Throws ArgumentError on all ranks where an index of any rank is neither in [0, limit) nor `ignored`.
/// Communicates: one agreement.
template <class P, class Ctx>
void check_indices(const DistTensor<std::int64_t, P, Ctx>& indices, index_t limit, std::optional<std::int64_t> ignored,
                   const std::string& subject) {
  index_t found = -1;
  const kernel::FirstOutside check{indices.local(), limit, ignored.value_or(0), ignored.has_value(),
                                   View<index_t>(&found, 1, 1, 1)};
  for_each_index(indices.context().backend(), 1, check);
  std::string objection;
  if (found >= 0) {
    objection = "ArgumentError: " + subject + ": row " + std::to_string(indices.block().rows.begin + found) +
                " asks for " + std::to_string(indices.local()(found, 0)) + ", there " +
                (limit > 0 ? "are 0 to " + std::to_string(limit - 1) : std::string("is none")) +
                (ignored ? ", and " + std::to_string(*ignored) + " is ignored" : std::string());
  }
  agree_or_throw<ArgumentError>(indices.context().comm(), objection);
}

}  // namespace partita::detail
