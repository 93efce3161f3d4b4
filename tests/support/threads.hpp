// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, for tests of products: the body's context, sinks that record, throw or delay, and the table.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "partita/partita.hpp"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PARTITA_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define PARTITA_TEST_SANITIZED 1
#endif
#endif

namespace partita::test {

#if defined(PARTITA_TEST_SANITIZED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Calls body(ThreadContext&) on `ranks` threads.
template <class Body>
void on_ranks(int ranks, Body body) {
  launch_threads(ranks, [&](ThreadComm& comm) {
    ThreadContext context(std::move(comm));
    body(context);
  });
}

/// Keeps every event of its thread.
struct RecordingSink final : EventSink {
  std::vector<Event> events;
  void record(const Event& event) override { events.push_back(event); }
};

/// The operations of a rank in words, without what may differ between ranks of a group.
inline std::string sequence(const std::vector<Event>& events) {
  std::string text;
  for (const Event& e : events) {
    text += std::string(e.operation) + " of " + std::to_string(e.size) + " root " + std::to_string(e.root) + "; ";
  }
  return text;
}

/// Throws std::runtime_error("boom") before operation number `k` of its thread, and notes when.
struct ThrowingSink final : EventSink {
  using Clock = std::chrono::steady_clock;
  explicit ThrowingSink(int which, std::atomic<Clock::rep>* when = nullptr) : k(which), thrown_at(when) {}
  int k;
  std::atomic<Clock::rep>* thrown_at;
  void record(const Event&) override {
    if (k-- != 0) return;
    if (thrown_at != nullptr) thrown_at->store(Clock::now().time_since_epoch().count());
    throw std::runtime_error("boom");
  }
};

/// Sleeps for a random time before some operations.
struct DelayingSink final : EventSink {
  DelayingSink(std::uint32_t seed, int longest_us) : engine(seed), longest(longest_us) {}
  std::mt19937 engine;
  int longest;
  void record(const Event&) override {
    if (engine() % 3 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(engine() % static_cast<unsigned>(longest)));
  }
};

/// A pair of the multiplication table: partitions of op(A) and op(B), and how each is stored.
template <class OpA, class OpB, bool TransposesA = false, bool TransposesB = false>
struct Pair {
  using a = OpA;
  using b = OpB;
  using grid_type = meet_grids_t<typename OpA::grid_type, typename OpB::grid_type>;
  using result = typename MatmulRule<OpA, OpB>::result;
  static constexpr bool a_transposed = TransposesA;
  static constexpr bool b_transposed = TransposesB;
};

/// The elements of a matrix by their global index; not a template parameter, so that each pair compiles once.
using Elements = std::function<double(index_t, index_t)>;

/// The tensor that stores op(X) = f with partition P, itself or its transpose.
template <class T, class P, bool Transposed, class Grid>
auto stored(const Grid& grid, Shape logical, const Elements& f) {
  if constexpr (Transposed) {
    return from_function<T, transposed_t<P>>(grid, logical.transposed(),
                                             Elements([&f](index_t i, index_t j) { return f(j, i); }));
  } else {
    return from_function<T, P>(grid, logical, f);
  }
}
template <bool Transposed, class X>
auto op(const X& x) {
  if constexpr (Transposed) {
    return transposed(x);
  } else {
    return x.view();
  }
}

/// C = alpha·op(A)·op(B) + beta·C0 for a pair of the table, gathered on every rank. The functions give the elements
/// of op(A), op(B) and C0.
template <class T, class P, class Grid>
Matrix<T> table_product(const Grid& grid, index_t m, index_t n, index_t k, const Elements& fa, const Elements& fb,
                        const Elements& fc, T alpha, T beta, const MatmulOptions& options = {}) {
  const auto a = stored<T, typename P::a, P::a_transposed>(grid, {m, k}, fa);
  const auto b = stored<T, typename P::b, P::b_transposed>(grid, {k, n}, fb);
  auto c = from_function<T, typename P::result>(grid, {m, n}, fc);
  matmul_into(c, op<P::a_transposed>(a), op<P::b_transposed>(b), alpha, beta, options);
  return gather(c);
}

template <class F>
void for_pairs_1d(F f) {
  f(Pair<Replicated<>, ColumnShard<>>{});
  f(Pair<ColumnShard<>, RowShard<>>{});
  f(Pair<RowShard<>, ColumnShard<>>{});
  f(Pair<RowShard<>, Replicated<>>{});
  f(Pair<transposed_t<RowShard<>>, RowShard<>, true>{});
}
template <class F>
void for_pairs_2d(F f) {
  f(Pair<Summa2D<>, Summa2D<>>{});
  f(Pair<Summa2D<>, transposed_t<Summa2D<>>, false, true>{});
  f(Pair<transposed_t<Summa2D<>>, Summa2D<>, true>{});
}
template <class F>
void for_pairs_25d(F f) {
  f(Pair<Summa25D<>, Summa25DWeight<>>{});
  f(Pair<Summa25D<>, transposed_t<Summa25DWeight<>>, false, true>{});
  f(Pair<transposed_t<Summa25D<>>, Summa25D<>, true>{});
  f(Pair<SplitKLeft<>, SplitKRight<>>{});
}

/// A pair of the table on one rank of a grid, without its types: what a test calls is compiled once for each pair.
struct TableProduct {
  int rank = 0;
  AxisValues coordinates{};
  Layout a;       // as stored
  Shape a_local;  // the block of A that this rank held in the last product
  /// C = alpha·op(A)·op(B) + beta·C0, gathered on every rank.
  std::function<Matrix<double>(index_t m, index_t n, index_t k, const Elements& a, const Elements& b,
                               const Elements& c0, double alpha, double beta)>
      multiply;
};

/// 1-D over `tp` ranks, Row×Col of q×q, Depth×Row×Col of d×q×q. A size of 0 leaves these pairs out.
struct TableGrids {
  int tp = 0;
  int q_2d = 0;
  int q_25d = 0, d_25d = 0;
};

using TableBody = std::function<void(TableProduct&)>;

template <class P, class Grid>
void call_for_pair(const Grid& grid, const TableBody& body) {
  TableProduct product;
  product.rank = grid.context().rank();
  product.coordinates = grid.ranks().coordinates();
  product.a = P::a_transposed ? P::a::layout.transposed() : P::a::layout;
  product.multiply = [&](index_t m, index_t n, index_t k, const Elements& fa, const Elements& fb, const Elements& fc,
                         double alpha, double beta) {
    const auto a = stored<double, typename P::a, P::a_transposed>(grid, {m, k}, fa);
    const auto b = stored<double, typename P::b, P::b_transposed>(grid, {k, n}, fb);
    auto c = from_function<double, typename P::result>(grid, {m, n}, fc);
    product.a_local = a.local().shape();
    matmul_into(c, op<P::a_transposed>(a), op<P::b_transposed>(b), alpha, beta);
    return gather(c);
  };
  body(product);
}

/// Calls the body on each rank for every pair of the table.
inline void for_table(TableGrids grids, const TableBody& body) {
  if (grids.tp > 0) {
    on_ranks(grids.tp, [&](ThreadContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, grids.tp);
      for_pairs_1d([&](auto pair) { call_for_pair<decltype(pair)>(grid, body); });
    });
  }
  if (grids.q_2d > 0) {
    on_ranks(grids.q_2d * grids.q_2d, [&](ThreadContext& context) {
      const auto grid = make_grid<Grid2D<>>(context, grids.q_2d, grids.q_2d);
      for_pairs_2d([&](auto pair) { call_for_pair<decltype(pair)>(grid, body); });
    });
  }
  if (grids.q_25d > 0) {
    on_ranks(grids.d_25d * grids.q_25d * grids.q_25d, [&](ThreadContext& context) {
      const auto grid = make_grid<Grid25D<>>(context, grids.d_25d, grids.q_25d, grids.q_25d);
      for_pairs_25d([&](auto pair) { call_for_pair<decltype(pair)>(grid, body); });
    });
  }
}

/// Bitwise equality of whole matrices (a NaN equals itself, -0 differs from +0).
template <class T>
bool same_bits(const Matrix<T>& x, const Matrix<T>& y) {
  return x.shape == y.shape &&
         (x.elements.empty() || std::memcmp(x.elements.data(), y.elements.data(), x.elements.size() * sizeof(T)) == 0);
}

/// The product in plain loops.
template <class T, class FA, class FB>
Matrix<T> serial_product(index_t m, index_t n, index_t k, FA fa, FB fb) {
  Matrix<T> c(Shape{m, n});
  for (index_t i = 0; i < m; ++i) {
    for (index_t l = 0; l < k; ++l) {
      const T x = static_cast<T>(fa(i, l));
      for (index_t j = 0; j < n; ++j) c(i, j) += x * static_cast<T>(fb(l, j));
    }
  }
  return c;
}

}  // namespace partita::test
