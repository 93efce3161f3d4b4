// SPDX-License-Identifier: Apache-2.0
// One configuration of a product, run on every rank without types for its partitions, against the serial result.
#pragma once

#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/thread.hpp"
#include "partita/context.hpp"
#include "partita/grid/process_grid.hpp"
#include "partita/matmul/executor.hpp"
#include "partita/matmul/workspace.hpp"
#include "partita/schedule/text.hpp"
#include "support/backend.hpp"
#include "support/copying_comm.hpp"

namespace partita::test {

/// A product over layouts, not types.
struct ProductCase {
  ProductPlan plan;
  Layout a;  // of op(A), before slicing
  Layout b;
  index_t m = 0, n = 0, k = 0;
  Units a_units, b_units;
  bool a_transposed = false, b_transposed = false;  // how the operands are stored
  bool conjugated = false;                          // transposed operands are adjoints
  int alpha = 1, beta = 0;
  index_t ld_padding = 0;
  MatmulOptions options;
  std::uint64_t seed = 0;
};

/// What one rank found.
struct CaseResult {
  std::string failure;  // empty: all is well
  index_t panels = 0;
};

using CountedContext = Context<TestBackend, CountingComm<ThreadComm>>;
using CopyingContext = Context<TestBackend, CountingComm<CopyingComm<ThreadComm>>>;

inline Traffic touched(CountedContext& context) { return context.comm().base().traffic(); }
inline Traffic touched(CopyingContext& context) { return context.comm().base().base().traffic(); }

/// A small integer from a position, the same on every rank.
inline int small_integer(std::uint64_t seed, index_t i, index_t j) {
  std::uint64_t x = seed + 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(i * 1024 + j + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<int>((x >> 40) % 7) - 3;
}

template <class T>
T element(std::uint64_t seed, index_t i, index_t j) {
  if constexpr (is_complex_v<T>) {
    using R = typename T::value_type;
    return T(static_cast<R>(small_integer(seed, i, j)), static_cast<R>(small_integer(seed + 77, i, j)));
  } else {
    return static_cast<T>(static_cast<accumulate_t<T>>(small_integer(seed, i, j)));
  }
}

template <class T>
accumulate_t<T> wide(T x) {
  return static_cast<accumulate_t<T>>(x);
}

/// Bitwise equality, where the two zeros are one (their sign depends on the order of exact sums).
template <class T>
bool same(T x, T y) {
  using A = accumulate_t<T>;
  const A a = wide(x) + A(0);
  const A b = wide(y) + A(0);
  return std::memcmp(&a, &b, sizeof(A)) == 0;
}

/// This rank's stored block of an operand, with padding between rows that must survive.
template <class T>
struct StoredOperand {
  std::vector<T> memory;
  View<T> view;
  MatrixOperand<T> operand;

  StoredOperand(Block logical, bool transposed, bool conjugated, index_t padding, std::uint64_t seed) {
    const Block stored = transposed ? logical.transposed() : logical;
    const index_t ld = stored.cols.size() + padding;
    memory.assign(static_cast<std::size_t>(stored.rows.size() * ld + 1), static_cast<T>(accumulate_t<T>(-77)));
    view = View<T>(memory.data(), stored.rows.size(), stored.cols.size(), ld);
    for (index_t i = 0; i < view.rows; ++i) {
      for (index_t j = 0; j < view.cols; ++j) {
        const index_t row = transposed ? logical.rows.begin + j : logical.rows.begin + i;
        const index_t col = transposed ? logical.cols.begin + i : logical.cols.begin + j;
        T x = element<T>(seed, row, col);
        if constexpr (is_complex_v<T>) {
          if (conjugated) x = std::conj(x);
        }
        view(i, j) = x;
      }
    }
    operand = {view, transposed, conjugated};
  }
  [[nodiscard]] bool padding_untouched() const {
    for (index_t i = 0; i < view.rows; ++i) {
      for (index_t j = view.cols; j < view.ld; ++j) {
        if (!same(view.data[i * view.ld + j], static_cast<T>(accumulate_t<T>(-77)))) return false;
      }
    }
    return true;
  }
};

template <class T, class Ctx>
ProductGeometry case_geometry(const ProcessGrid<Ctx>& grid, const ProductCase& c) {
  ProductGeometry geometry{c.m, c.n, c.k, c.a_units, c.b_units, grid.extents(), grid.coordinates()};
  geometry.widened = is_storage_only_v<T>;
  geometry.scratch_bytes = static_cast<index_t>(sizeof(accumulate_t<T>));
  geometry.panels_in_place = Ctx::comm_type::panels_in_place;
  geometry.prefers_all_gather = prefers_all_gather<typename Ctx::comm_type>;
  geometry.prefers_cut_sums = prefers_cut_sums<typename Ctx::comm_type>;
  return geometry;
}

/// This rank's blocks of a case; old values of C that must not survive are NaN.
template <class T>
struct CaseBlocks {
  template <class Ctx>
  CaseBlocks(const ProcessGrid<Ctx>& grid, const ProductCase& c, const ProductSchedule& schedule)
      : a_block(block_of(c.a, {c.m, c.k}, c.a_units, grid.extents(), grid.coordinates())),
        b_block(block_of(c.b, {c.k, c.n}, c.b_units, grid.extents(), grid.coordinates())),
        c_block(schedule.frame().result_block()),
        a(a_block, c.a_transposed, c.conjugated && c.a_transposed, c.ld_padding, c.seed),
        b(b_block, c.b_transposed, c.conjugated && c.b_transposed, c.ld_padding, c.seed + 1),
        result(c_block, false, false, c.ld_padding, c.seed + 2) {
    for (index_t i = 0; i < result.view.rows && c.beta == 0; ++i) {
      std::memset(static_cast<void*>(result.view.row(i)), 0xff, static_cast<std::size_t>(result.view.cols) * sizeof(T));
    }
  }

  Block a_block, b_block, c_block;
  StoredOperand<T> a, b, result;
};

/// What is wrong with a case's traffic, counted from calls and touched in memory; empty where nothing is.
inline std::string traffic_failure(const ProductCase& c, const ProductSchedule& schedule, Traffic counted,
                                   Traffic touched_now) {
  const Count count = count_of(schedule);
  std::string failure;
  if (c.alpha != 0) {
    if (count.elements != counted.elements || count.messages != counted.messages) {
      failure += "schedule counts " + to_string(count) + ", calls " + std::to_string(counted.messages) + " messages, " +
                 std::to_string(counted.elements) + " elements; ";
    }
    if (counted != touched_now) {
      failure += "calls count " + std::to_string(counted.messages) + " messages, " + std::to_string(counted.elements) +
                 " elements, memory touched " + std::to_string(touched_now.messages) + ", " +
                 std::to_string(touched_now.elements) + "; ";
    }
  } else if (counted != Traffic{} || touched_now != Traffic{}) {
    failure += "alpha = 0 communicates; ";
  }
  return failure;
}

/// Compares `computed`, where pending sums are added up, with the serial result, and counts the panels.
template <class T, class Ctx>
void finish_case(const ProcessGrid<Ctx>& grid, const ProductCase& c, const ProductSchedule& schedule,
                 const CaseBlocks<T>& blocks, View<const T> computed, CaseResult& found) {
  using Acc = accumulate_t<T>;
  const Block c_block = blocks.c_block;
  if (!blocks.a.padding_untouched() || !blocks.b.padding_untouched() || !blocks.result.padding_untouched()) {
    found.failure += "padding was written; ";
  }
  const int copies = c.plan.result.partial.empty() ? 1 : group_size(c.plan.result.partial, grid.extents());
  for (index_t i = 0; i < c_block.rows.size() && found.failure.empty(); ++i) {
    for (index_t j = 0; j < c_block.cols.size(); ++j) {
      const index_t row = c_block.rows.begin + i;
      const index_t col = c_block.cols.begin + j;
      Acc sum(0);
      for (index_t l = 0; l < c.k; ++l) {
        sum += wide(element<T>(c.seed, row, l)) * wide(element<T>(c.seed + 1, l, col));
      }
      Acc expected = Acc(static_cast<float>(c.alpha)) * sum;
      if (c.beta != 0) {
        expected += Acc(static_cast<float>(c.beta * copies)) * wide(element<T>(c.seed + 2, row, col));
      }
      if (!same(computed(i, j), static_cast<T>(expected))) {
        found.failure = "C(" + std::to_string(row) + ", " + std::to_string(col) + ") is wrong";
        break;
      }
    }
  }
  schedule.for_each([&](const Step& step) {
    if (step.kind == StepKind::gemm && step.last) ++found.panels;
  });
}

/// Runs the case; collective over the grid. A failure's text says what differs, not on which rank.
template <class T, class Ctx>
CaseResult run_case(ProcessGrid<Ctx>& grid, const ProductCase& c) {
  using Acc = accumulate_t<T>;
  const ProductGeometry geometry = case_geometry<T>(grid, c);
  const ProductSchedule schedule(c.plan, geometry, fit_workspace(c.plan, geometry, c.options));
  CaseBlocks<T> blocks(grid, c, schedule);

  Ctx& context = grid.context();
  context.comm().barrier();
  const Traffic counted_before = context.comm().traffic();
  const Traffic touched_before = touched(context);
  context.comm().barrier();
  execute(ProductCall<T, T, Ctx>{&grid, blocks.a.operand, blocks.b.operand, blocks.a_block, blocks.b_block,
                                 blocks.result.view, Acc(static_cast<float>(c.alpha)), Acc(static_cast<float>(c.beta))},
          schedule);
  // Operands may be changed as soon as a product returns: a peer that still reads them gets garbage.
  for (auto* operand : {&blocks.a, &blocks.b}) {
    for (index_t i = 0; i < operand->view.rows; ++i) {
      for (index_t j = 0; j < operand->view.cols; ++j) operand->view(i, j) = static_cast<T>(Acc(1000));
    }
  }
  context.comm().barrier();
  CaseResult found;
  found.failure =
      traffic_failure(c, schedule, context.comm().traffic() - counted_before, touched(context) - touched_before);
  // A pending sum that was asked for is checked by adding up what the ranks hold.
  View<const T> computed = blocks.result.view;
  std::vector<T> total;
  if (!c.plan.result.partial.empty()) {
    if constexpr (!is_storage_only_v<T>) {
      total.resize(static_cast<std::size_t>(computed.size()));
      grid.comm(c.plan.result.partial)
          .template all_reduce<T>(computed, View<T>(total.data(), computed.shape()), ReduceOp::sum)
          .wait();
      computed = View<const T>(total.data(), computed.shape());
    }
  }
  finish_case(grid, c, schedule, blocks, computed, found);
  return found;
}

/// Runs the case with scalar number 0 … 5: float, double, complex of both, half, bfloat16.
template <class Ctx>
CaseResult run_case_of(int scalar, ProcessGrid<Ctx>& grid, const ProductCase& c) {
  switch (scalar) {
    case 0:
      return run_case<float>(grid, c);
    case 1:
      return run_case<double>(grid, c);
    case 2:
      return run_case<std::complex<float>>(grid, c);
    case 3:
      return run_case<std::complex<double>>(grid, c);
    case 4:
      return run_case<half>(grid, c);
    default:
      return run_case<bfloat16>(grid, c);
  }
}

/// The case in words.
inline std::string describe(const ProductCase& c, std::span<const std::string_view> names) {
  return layout_text(c.a, names) + (c.a_transposed ? " (stored transposed)" : "") + " x " + layout_text(c.b, names) +
         (c.b_transposed ? " (stored transposed)" : "") + " -> " + layout_text(c.plan.result, names) + ", m " +
         std::to_string(c.m) + ", n " + std::to_string(c.n) + ", k " + std::to_string(c.k) + ", units " +
         std::to_string(c.a_units.rows) + " " + std::to_string(c.a_units.cols) + " " + std::to_string(c.b_units.rows) +
         " " + std::to_string(c.b_units.cols) + ", alpha " + std::to_string(c.alpha) + ", beta " +
         std::to_string(c.beta) + ", width " + std::to_string(c.options.panel_width.value_or(0)) + ", sum width " +
         std::to_string(c.options.sum_width.value_or(0)) + ", lookahead " +
         std::to_string(c.options.lookahead.value_or(0)) +
         (!c.options.panels                           ? ", by preference"
          : c.options.panels == PanelMove::all_gather ? ", all_gather"
                                                      : ", broadcast") +
         ", seed " + std::to_string(c.seed);
}

}  // namespace partita::test
