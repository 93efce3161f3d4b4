// SPDX-License-Identifier: Apache-2.0
// The feed-forward layer with the GELU by tanh, which a device does in the pass of the first product: the same values,
// gradients and recomputation as by separate steps.
#include "partita/nn/feed_forward.hpp"

#include <doctest/doctest.h>

#include "partita/nn/dropout.hpp"
#include "partita/nn/recompute.hpp"
#include "support/compare.hpp"
#include "support/serial_layers.hpp"

#ifdef PARTITA_TEST_RANKS
#include "partita/comm/checked.hpp"
#endif

namespace partita::test {
namespace {

struct FeedForwardCase {
  Shape shape;  // tokens, features
  index_t hidden = 0;
  bool bias = true;
  Matrix<double> x, dy;
  std::vector<Matrix<double>> parameters;
  SerialRun run;

  FeedForwardCase(Shape s, index_t h, bool biased)
      : shape(s), hidden(h), bias(biased), x(random_matrix(s, 1)), dy(random_matrix(s, 2)) {
    Matrix<double> w1 = random_matrix({s.cols, h}, 3), b1({1, h}), w2 = random_matrix({h, s.cols}, 5), b2({1, s.cols});
    if (biased) {
      b1 = random_matrix({1, h}, 4);
      b2 = random_matrix({1, s.cols}, 6);
    }
    const auto held = [&]() -> std::vector<Matrix<double>*> {
      if (biased) return {&w1, &b1, &w2, &b2};
      return {&w1, &w2};
    }();
    run = serial_run(x, dy, held, [&] {
      Matrix<double> inner = serial_linear(x, w1, b1);
      for (double& element : inner.elements) element = kernel::TanhGelu::value(element);
      return serial_linear(inner, w2, b2);
    });
    for (const Matrix<double>* parameter : held) parameters.push_back(*parameter);
  }
};

template <class T, class S, class Function = kernel::TanhGelu>
using Layers = FeedForward<T, S, TestContext, Function>;

template <class L, class Handle>
L made(const Handle& grid, const FeedForwardCase& c) {
  L layer(grid, "feed", c.shape.cols, c.hidden, {.bias = c.bias});
  assign_parameters(layer, c.parameters);
  return layer;
}

template <class T, class S, class Handle>
void check_feed_forward(const Handle& grid, S, const FeedForwardCase& c, double forward_limit, double gradient_limit) {
  using L = Layers<T, S>;
  static_assert(Layer<L>);
  L layer = made<L>(grid, c);
  const auto found = run_layer(layer, grid, c.x, c.dy, {});
  CHECK(found.uncounted_forward == "");
  CHECK(found.uncounted_backward == "");
  CHECK(relative_difference(found.y, c.run.y) <= forward_limit);
  CHECK(relative_difference(found.dx, c.run.dx) <= gradient_limit);
  CHECK(gradient_difference(layer, c.run.gradients) <= gradient_limit);
}

/// Hidden features that 8 divides on all ranks, on none, on some, and fewer of them than ranks.
std::vector<FeedForwardCase> feed_forward_cases() {
  std::vector<FeedForwardCase> all;
  all.emplace_back(Shape{6, 4}, 32, true);
  all.emplace_back(Shape{5, 3}, 32, false);
  all.emplace_back(Shape{4, 2}, 12, true);
  all.emplace_back(Shape{4, 5}, 17, true);
  all.emplace_back(Shape{3, 4}, 1, true);
  all.emplace_back(Shape{0, 4}, 16, true);
  return all;
}

TEST_CASE("feed-forward: values, every gradient and counts under every strategy and shape") {
  const std::vector<FeedForwardCase> cases = feed_forward_cases();
  const auto check = [&](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    for (const FeedForwardCase& c : cases) {
      CAPTURE(to_string(c.shape));
      check_feed_forward<double>(grid, strategy, c, 1e-13, 1e-6);
      check_feed_forward<float>(grid, strategy, c, 1e-5, 1e-5);
    }
  };
  for_strategies(check);
  // Whose first product is local.
  on_test_ranks(2, [&](TestContext& context) { check(make_grid<TpGrid<>>(context, 2), ColumnRow<>{}); });
}

Matrix<double> widened(const Matrix<bfloat16>& m) {
  Matrix<double> out(m.shape);
  for (std::size_t i = 0; i < m.elements.size(); ++i) out.elements[i] = static_cast<float>(m.elements[i]);
  return out;
}

TEST_CASE("feed-forward: 16-bit storage differs from fp32 by its rounding") {
  for (const index_t hidden : {index_t{32}, index_t{12}}) {
    FeedForwardCase c({6, 8}, hidden, true);
    for (Matrix<double>& p : c.parameters) p = widened(converted<bfloat16>(p));
    c.x = widened(converted<bfloat16>(c.x));
    c.dy = widened(converted<bfloat16>(c.dy));
    on_test_ranks(2, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, 2);
      auto wide = made<Layers<float, ColumnRow<>>>(grid, c);
      auto narrow = made<Layers<bfloat16, ColumnRow<>>>(grid, c);
      const auto wanted = run_layer(wide, grid, c.x, c.dy, {});
      const auto found = run_layer(narrow, grid, c.x, c.dy, {});
      CAPTURE(hidden);
      const double limit = 4.0 / 256;  // X·W₁ + b₁, the function of it and the result are rounded at 1/256 each
      CHECK(relative_difference(widened(found.y), wanted.y) <= limit);
      CHECK(relative_difference(widened(found.dx), wanted.dx) <= limit);
      std::vector<Matrix<float>> gradients;
      wide.for_each_parameter([&](auto& parameter) { gradients.push_back(whole(parameter.gradient())); });
      std::size_t next = 0;
      narrow.for_each_parameter([&](auto& parameter) {
        CAPTURE(parameter.name());
        CHECK(relative_difference(whole(parameter.gradient()), gradients.at(next++)) <= limit);
      });
    });
  }
}

TEST_CASE("feed-forward: a chain in one pass keeps for backward() what its layers one by one keep") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    using Enter = Linear<float, Replicated<>, ColumnShard<>, ColumnShard<>, TestContext>;
    using Function = TanhGelu<float, ColumnShard<>, TestContext>;
    using Drop = Dropout<float, ColumnShard<>, TestContext>;
    static_assert(ForwardsWith<Enter, Function>);
    static_assert(!ForwardsWith<Enter, Drop> && !ForwardsWith<Function, Drop>);
    static_assert(!ForwardsWith<Enter, TanhGelu<double, ColumnShard<>, TestContext>>);
    const FeedForwardCase c({6, 4}, 16, true);
    const auto enter = [&] {
      Enter layer(grid, "enter", 4, 16);
      assign_parameters(layer, {c.parameters[0], c.parameters[1]});
      return layer;
    };
    const DropoutOptions half_of_it{.rate = 0.5, .seed = 3};
    using Chain = Sequential<Enter, Function, Drop>;
    Chain chain(enter(), {}, Drop(half_of_it));
    Recompute<Chain> again(Chain(enter(), {}, Drop(half_of_it)));
    Enter first = enter();
    Function second;
    Drop third(half_of_it);
    const Pass pass{.step = 4};
    const Matrix<double> dz = random_matrix({6, 16}, 9);
    const auto input = [&] { return distributed<float, Replicated<>>(grid, c.x); };
    const auto gradient = [&] { return distributed<float, ColumnShard<>>(grid, dz); };

    const auto z = third.forward(second.forward(first.forward(input(), pass), pass), pass);
    const auto dx = first.backward(second.backward(third.backward(gradient())));
    CHECK(relative_difference(whole(chain.forward(input(), pass)), whole(z)) <= 1e-6);
    CHECK(relative_difference(whole(chain.backward(gradient())), whole(dx)) <= 1e-6);
    CHECK(relative_difference(whole(chain.layer<0>().weight().gradient()), whole(first.weight().gradient())) <= 1e-6);
    CHECK_THROWS_AS((void)chain.layer<1>().backward(gradient()), ArgumentError);  // nothing is kept any more
    const auto z_chain = whole(chain.forward(input(), pass));
    const auto dx_chain = whole(chain.backward(gradient()));
    CHECK(compare_exact(whole(again.forward(input(), pass)), z_chain) == "");
    CHECK_THROWS_AS((void)again.inner().layer<1>().backward(gradient()), ArgumentError);
    CHECK(compare_exact(whole(again.backward(gradient())), dx_chain) == "");
    (void)chain.forward(input(), pass);
    chain.forget();
    CHECK_THROWS_AS((void)chain.layer<1>().backward(gradient()), ArgumentError);
    CHECK_THROWS_AS((void)chain.layer<0>().backward(gradient()), ArgumentError);
  });
}

#ifdef PARTITA_TEST_RANKS

/// How many products of cublasLt the ranks make in a forward pass, and in how many of them GELU's input is kept.
struct LtCalls {
  std::int64_t products = 0;
  std::int64_t auxiliaries = 0;
  friend bool operator==(const LtCalls&, const LtCalls&) = default;
};
template <class T, class Function>
LtCalls calls_of_forward(index_t hidden, bool bias) {
  LtCalls calls;
  on_test_ranks(2, [&](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    Layers<T, ColumnRow<>, Function> layer(grid, "feed", 8, hidden, {.bias = bias});
    auto x = distributed<T, Replicated<>>(grid, random_matrix({8, 8}, 1));
    const auto y = layer.forward(std::move(x));
    context.sync();
    context.comm().barrier();
    if (context.rank() == 0) {
      const cuda_emulation::Counters all = cuda_emulation::counters();
      calls = {all.lt_products, all.lt_auxiliaries};
    }
  });
  return calls;
}

TEST_CASE("feed-forward: on devices product, bias and GELU are one call of each rank, where they may be") {
  using kernel::ExactGelu;
  using kernel::TanhGelu;
  for (const bool bias : {true, false}) {
    CHECK(calls_of_forward<float, TanhGelu>(16, bias) == LtCalls{2, 2});
    CHECK(calls_of_forward<double, TanhGelu>(16, bias) == LtCalls{2, 2});
    CHECK(calls_of_forward<half, TanhGelu>(16, bias) == LtCalls{2, 2});
    CHECK(calls_of_forward<bfloat16, TanhGelu>(16, bias) == LtCalls{2, 2});
  }
  // Else the bias alone, where there is one.
  CHECK(calls_of_forward<float, ExactGelu>(16, true) == LtCalls{2, 0});
  CHECK(calls_of_forward<float, ExactGelu>(16, false) == LtCalls{0, 0});
  CHECK(calls_of_forward<float, TanhGelu>(12, true) == LtCalls{2, 0});  // 6 columns on each rank
  CHECK(calls_of_forward<float, TanhGelu>(12, false) == LtCalls{0, 0});
  CHECK(calls_of_forward<float, TanhGelu>(17, true) == LtCalls{2, 1});  // 9 and 8
  CHECK(calls_of_forward<half, TanhGelu>(12, true) == LtCalls{0, 0});   // rows of 12 bytes
  CHECK(calls_of_forward<float, kernel::Relu>(16, true) == LtCalls{2, 0});
}

TEST_CASE("feed-forward: ranks that compare their products all make them, whatever a rank's device could do at once") {
  using Checked = Context<CudaBackend, CheckedComm<NcclComm>>;
  const cuda_emulation::Fresh fresh(next_machine());
  launch_devices(2, [](NcclComm& base) {
    const auto timeline = base.timeline();
    Checked context(CheckedComm<NcclComm>(std::move(base)), CudaBackend(timeline));
    const auto grid = make_grid<TpGrid<>>(context, 2);
    FeedForward<half, ColumnRow<>, Checked, kernel::TanhGelu> layer(grid, "feed", 8, 17);  // 9 and 8 columns
    auto x = distributed<half, Replicated<>>(grid, random_matrix({8, 8}, 1));
    const auto y = layer.forward(std::move(x));
    (void)layer.backward(y);
    context.sync();
    context.comm().barrier();
  });
  CHECK(cuda_emulation::counters().lt_products == 0);
}

#endif

}  // namespace
}  // namespace partita::test
