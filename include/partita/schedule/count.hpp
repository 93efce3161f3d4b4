// SPDX-License-Identifier: Apache-2.0
// The price of a schedule for one rank: a fold over the same steps that are executed.
#pragma once

#include "partita/schedule/step.hpp"

namespace partita {

/// What one rank sends, receives and computes. The rule of counting is that of Traffic (comm/concepts.hpp).
struct Count {
  index_t messages = 0;
  index_t elements = 0;
  /// Multiplications and additions of the local products: 2·m·n·k each, whatever the scalar.
  index_t flops = 0;
  /// The most elements of scratch memory in use at once; panels that are read in place need none.
  index_t workspace = 0;

  friend constexpr bool operator==(const Count&, const Count&) = default;
};

namespace detail {

/// n minus the own part, and how many other ranks have a part.
constexpr void count_parts(const Step& step, Count& count) {
  for (int rank = 0; rank < step.ranks; ++rank) {
    const index_t n = step.parts.block_of(rank, step.block).size();
    if (rank == step.self || n == 0) continue;
    count.elements += n;
    ++count.messages;
  }
}

}  // namespace detail

/// Adds the price of one step. Constant time but for reduce_scatter and all_gather, which look at each rank's part.
constexpr void add_step(const Step& step, Count& count) {
  const index_t n = step.block.size();
  switch (step.kind) {
    case StepKind::gemm:
      count.flops += 2 * n * step.k.size();
      break;
    case StepKind::broadcast:
    case StepKind::reduce:
      if (step.self != step.root && n > 0) {
        count.elements += n;
        ++count.messages;
      }
      break;
    case StepKind::all_reduce: {
      const index_t own = balanced_part({0, n}, step.ranks, step.self).size();
      const index_t chunks = n < step.ranks ? n : step.ranks;
      count.elements += 2 * (n - own);
      count.messages += 2 * (chunks - (own > 0 ? 1 : 0));
      break;
    }
    case StepKind::reduce_scatter:
    case StepKind::all_gather:
      detail::count_parts(step, count);
      break;
    case StepKind::all_to_all_v:
      count.elements += step.elements;
      count.messages += step.messages;
      break;
    case StepKind::send_recv:
      if (step.source != step.self && n > 0) {
        count.elements += n;
        ++count.messages;
      }
      break;
  }
}

/// The price of a whole schedule. A schedule is anything with for_each(f), which calls f(step) for each step in order,
/// and workspace().
template <class Schedule>
[[nodiscard]] constexpr Count count_of(const Schedule& schedule) {
  Count count;
  schedule.for_each([&count](const Step& step) { add_step(step, count); });
  count.workspace = schedule.workspace();
  return count;
}

}  // namespace partita
