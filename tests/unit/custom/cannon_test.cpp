// SPDX-License-Identifier: Apache-2.0
// A user's own algorithm: Cannon's, for Summa2D on a square grid, as a specialisation of MatmulRule.

#include <doctest/doctest.h>

#include <tuple>
#include <utility>
#include <vector>

#include "partita/partita.hpp"
#include "support/fills.hpp"

namespace user {

using namespace partita;

/// L. E. Cannon, "A cellular computer to implement the Kalman filter algorithm" (1969). On a q×q grid, rank (r, c)
/// multiplies A[r, l]·B[l, c] for l = r + c, r + c + 1, … modulo q. The first blocks come from wherever they lie, after
/// that A moves one place left along its row and B one place up along its column.
struct CannonSchedule {
  ProductFrame frame;

  [[nodiscard]] constexpr int q() const { return frame.geometry().extents[0]; }
  [[nodiscard]] constexpr int row() const { return frame.geometry().coordinates[0]; }
  [[nodiscard]] constexpr int col() const { return frame.geometry().coordinates[1]; }
  [[nodiscard]] constexpr int wrap(int i) const { return ((i % q()) + q()) % q(); }
  /// Block l of k.
  [[nodiscard]] constexpr Range k(int l) const {
    return frame.k_of_a().elements(balanced_part(frame.k_of_a().units(), q(), l));
  }
  [[nodiscard]] constexpr Range rows() const { return frame.a_block().rows; }
  [[nodiscard]] constexpr Range cols() const { return frame.b_block().cols; }

  /// `block` is what comes in; the amount that leaves is its sender's concern.
  [[nodiscard]] constexpr Step shift(Operand operand, int by, int l) const {
    const bool left = operand == Operand::a;
    Step step = frame.grouped(StepKind::send_recv, operand, AxisList{left ? 1 : 0});
    step.root = wrap(step.self - by);
    step.source = wrap(step.self + by);
    step.block = left ? Block{rows(), k(l)} : Block{k(l), cols()};
    return step;
  }

  template <class F>
  constexpr void for_each(F&& f) const {
    for (int i = 0; i < q(); ++i) {
      const int l = wrap(row() + col() + i);
      f(shift(Operand::a, i == 0 ? row() : 1, l));
      f(shift(Operand::b, i == 0 ? col() : 1, l));
      Step multiply;
      multiply.panel = i;
      multiply.block = {rows(), cols()};
      multiply.k = k(l);
      f(multiply);
    }
  }
  [[nodiscard]] constexpr index_t workspace() const {
    const index_t k_most = k(0).size();
    return 2 * k_most * (rows().size() + cols().size());
  }
};

template <class T, class Out, class Ctx>
void run_cannon(const ProductCall<T, Out, Ctx>& call, const CannonSchedule& schedule) {
  Ctx& context = call.grid->context();
  context.backend().template scale<Out>(call.beta, call.c);
  if (call.alpha == T(0)) return;
  // Two buffers for each operand: one is sent while the other is filled.
  MatrixOperand<T> held[2] = {call.a, call.b};
  int filled[2] = {0, 0};
  schedule.for_each([&](const Step& step) {
    if (step.kind == StepKind::gemm) {
      context.backend().template gemm<T>(call.alpha, held[0], held[1], call.c);
      return;
    }
    const auto which = static_cast<std::size_t>(step.operand);
    auto& group = call.grid->comm(step.axes);  // made by all ranks together, so before any of them returns
    if (step.source == step.self) return;
    MatrixOperand<T>& mine = held[which];
    const Shape shape = mine.transposed ? step.block.shape().transposed() : step.block.shape();
    const int slot = 100 + 2 * static_cast<int>(which) + filled[which];
    filled[which] = 1 - filled[which];
    const View<T> incoming(context.template workspace<T>(slot, shape.size()), shape);
    auto sent = group.send(mine.stored, step.root, 0);
    auto received = group.recv(incoming, step.source, 0);
    received.wait();
    sent.wait();
    mine.stored = incoming;
  });
}

}  // namespace user

template <int Q>
struct partita::MatmulRule<partita::Summa2D<Q, Q>, partita::Summa2D<Q, Q>> {
  using result = Summa2D<Q, Q>;
  static constexpr bool valid = true;

  [[nodiscard]] static constexpr user::CannonSchedule schedule(const ProductGeometry& geometry, const MatmulOptions&) {
    return {ProductFrame(plan_product(result::layout, result::layout), geometry)};
  }
  template <class T, class Out, class Ctx>
  static void run(const ProductCall<T, Out, Ctx>& call, const ProductGeometry& geometry, const MatmulOptions& options) {
    user::run_cannon(call, schedule(geometry, options));
  }
};

namespace {

using namespace partita;
using namespace partita::test;

template <int Q>
void multiply(Shape a_shape, index_t n, float alpha, float beta) {
  using P = Summa2D<Q, Q>;
  launch_threads(Q * Q, [&](ThreadComm& comm) {
    Context<EigenBackend, CountingComm<ThreadComm>> context(CountingComm<ThreadComm>(std::move(comm)));
    const auto grid = make_grid<P>(context);
    const auto a = from_function<float, P>(grid, a_shape, fill_a);
    const auto b = from_function<float, P>(grid, {a_shape.cols, n}, fill_b);
    auto c = from_function<float, P>(grid, {a_shape.rows, n}, fill_c);
    auto derived = c.clone();
    const Traffic before = context.comm().traffic();
    matmul_into(c, a, b, alpha, beta);
    const Traffic moved = context.comm().traffic() - before;

    const auto schedule = MatmulRule<P, P>::schedule(product_geometry(a.view(), b.view()), {});
    const Count count = count_of(schedule);
    CHECK(count.elements == moved.elements);
    CHECK(count.messages == moved.messages);

    // The same product by the derived rule, which the specialisation hides.
    detail::multiply_views<DerivedRule<P, P>>(derived, a.view(), b.view(), alpha, beta, {});
    CHECK(gather(c).elements == gather(derived).elements);
  });
}

}  // namespace

TEST_CASE("a specialisation of MatmulRule is used: Cannon's algorithm on square grids") {
  for (const auto& [m, k, n] : {std::tuple<index_t, index_t, index_t>{6, 6, 6}, {7, 5, 11}, {1, 1, 1}, {2, 0, 3}}) {
    multiply<1>({m, k}, n, 1, 0);
    multiply<2>({m, k}, n, 2, -1);
    multiply<3>({m, k}, n, 1, 3);
    multiply<4>({m, k}, n, -1, 0);
  }
}

TEST_CASE("explain() prints the specialised schedule") {
  launch_threads(4, [](ThreadComm& comm) {
    ThreadContext context(std::move(comm));
    const auto grid = make_grid<Summa2D<2>>(context);
    const auto a = zeros<double, Summa2D<2>>(grid, {4, 4});
    const std::string text = explain(a, a);
    CHECK(text.find("send_recv A[") != std::string::npos);
    CHECK(text.find("broadcast") == std::string::npos);
  });
}

TEST_CASE("rectangular and transposed products keep the derived rule") {
  static_assert(MatmulRule<Summa2D<2, 3>, Summa2D<2, 3>>::plan.plan.algorithm == Algorithm::stationary_c);
  static_assert(MatmulRule<Summa2D<2>, transposed_t<Summa2D<2>>>::plan.plan.algorithm == Algorithm::stationary_a);
}
