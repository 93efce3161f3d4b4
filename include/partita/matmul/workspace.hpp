// SPDX-License-Identifier: Apache-2.0
// Narrowing panels to a cap on scratch memory.
#pragma once

#include <limits>
#include <string>

#include "partita/base/error.hpp"
#include "partita/matmul/schedule.hpp"

namespace partita {

/// Errors: ArgumentError for a width, a lookahead or a sum width below 1.
constexpr void check_options(const MatmulOptions& options) {
  if (options.panel_width.value_or(1) >= 1 && options.lookahead.value_or(1) >= 1 &&
      options.sum_width.value_or(1) >= 1) {
    return;
  }
  const auto text = [](const auto& option) { return option ? std::to_string(*option) : std::string("left open"); };
  throw ArgumentError("ArgumentError: matmul with panel width " + text(options.panel_width) + ", lookahead " +
                      text(options.lookahead) + " and sum width " + text(options.sum_width) +
                      "; each must be at least 1");
}

[[noreturn]] inline void throw_no_workspace(const MatmulOptions& options, index_t needed) {
  throw CapacityError("CapacityError: matmul may use " + std::to_string(options.workspace_bytes) +
                      " bytes of scratch memory; panels of width 1 need " + std::to_string(needed));
}

/// The options with the panel width reduced until no rank needs more than `workspace_bytes` of scratch memory. The
/// first rank along every axis holds the largest blocks, so all ranks find the same width without traffic.
/// Errors: those of check_options(); CapacityError where panels of one element still need more.
[[nodiscard]] constexpr MatmulOptions fit_workspace(const ProductPlan& product, ProductGeometry geometry,
                                                    MatmulOptions options) {
  check_options(options);
  if (options.workspace_bytes == std::numeric_limits<index_t>::max()) return options;
  geometry.coordinates = {};
  const auto bytes = [&](index_t width) {
    MatmulOptions narrowed = options;
    narrowed.panel_width = width;
    return ProductSchedule(product, geometry, narrowed).workspace() * geometry.scratch_bytes;
  };
  const index_t widest = ProductSchedule(product, geometry, options).panel_width();
  if (bytes(widest) <= options.workspace_bytes) return options;
  index_t fits = 0;
  for (index_t low = 1, high = widest; low <= high;) {
    const index_t middle = low + (high - low) / 2;
    if (bytes(middle) <= options.workspace_bytes) {
      fits = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  if (fits == 0) throw_no_workspace(options, bytes(1));
  options.panel_width = fits;
  return options;
}

}  // namespace partita
