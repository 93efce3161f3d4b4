// SPDX-License-Identifier: Apache-2.0
// What a product's schedule depends on beside its plan: sizes, place and parameters.
#pragma once

#include <limits>
#include <optional>

#include "partita/base/axis_list.hpp"
#include "partita/partition/blocks.hpp"

namespace partita {

/// How panels travel: each from its owner to the group, or a slice of every owner's block at once (the same volume,
/// but all ranks send in every step). Slices need blocks of one size; where blocks are uneven, broadcasts are used.
enum class PanelMove { broadcast, all_gather };

/// Parameters of a product; the same on all ranks.
struct MatmulOptions {
  /// The most elements of the swept dimension in one panel, at least 1. Left open: as far as one rank owns it where
  /// panels are read in place and nothing is reduced on the way, since a cut would only cost synchronisations; else
  /// 512.
  std::optional<index_t> panel_width{};
  /// Panels in flight: while one is multiplied, the next ones move. At least 1; no more than 16 are used. Left open: 16
  /// in the first of these cases, else 2.
  std::optional<int> lookahead{};
  /// Left open: what the communicator prefers.
  std::optional<PanelMove> panels{};
  /// Where a local product's result waits for a sum over ranks: the most rows of it in one collective (columns, where
  /// rows are scattered), at least 1. A sum begins as soon as its part of the result is there, and moves while the next
  /// part is multiplied. Left open: all at once; where the communicator prefers it four parts, or fewer of at least
  /// 512.
  std::optional<index_t> sum_width{};
  /// The most bytes of scratch memory a rank may use; panels are narrowed to fit.
  index_t workspace_bytes = std::numeric_limits<index_t>::max();
};

/// Communicators bound the operations that a rank may have begun; panels in flight stay well below.
inline constexpr int most_panels_in_flight = 16;

/// Sizes of C[m,n] = A[m,k]·B[k,n], the units along which it may be cut, and where this rank stands.
struct ProductGeometry {
  index_t m = 0;
  index_t n = 0;
  index_t k = 0;
  Units a_units;  // of op(A): rows of m, columns of k
  Units b_units;  // of op(B): rows of k, columns of n
  AxisValues extents{};
  AxisValues coordinates{};
  /// Whether the scalar is a 16-bit storage type, whose sums are carried in fp32.
  bool widened = false;
  /// Bytes of one element of scratch memory: of the type in which sums are carried.
  index_t scratch_bytes = 8;
  /// Whether the communicator's panels are read in their owner's block, and need no scratch memory.
  bool panels_in_place = false;
  /// Whether the communicator prefers all-gathers of slices, where MatmulOptions leave it open.
  bool prefers_all_gather = false;
  /// Whether it prefers sums in parts, likewise.
  bool prefers_cut_sums = false;
};

}  // namespace partita
