// SPDX-License-Identifier: Apache-2.0
// Each optimiser against plain loops in double under every strategy, replicas to the bit, and fp32 masters.
#include <doctest/doctest.h>

#include "partita/nn/adam.hpp"
#include "partita/nn/gradient_sums.hpp"
#include "partita/nn/sgd.hpp"
#include "support/two_layers.hpp"

namespace partita::test {
namespace {

using Refs = std::vector<ParameterRef<double, TestContext>>;

/// One element of a parameter as the papers update it.
struct Element {
  double w = 0, m = 0, s = 0;
};
using SerialRule = std::function<void(Element& e, double g, int t, bool is_matrix)>;

/// A library's optimiser without its type, so that training is compiled once for each strategy.
struct Contestant {
  const char* name;
  std::function<std::function<void()>(const Refs&)> ours;
  SerialRule serial;
};

template <class Rule, class Decays>
auto of_ours(Rule rule, Decays decays) {
  return [rule, decays](const Refs& refs) {
    auto optimizer = std::make_shared<Optimizer<Rule, double, TestContext>>(refs, rule, decays);
    return [optimizer] { optimizer->step(); };
  };
}

std::vector<Contestant> contestants() {
  constexpr double rate = 0.01;
  const auto adam = [](Element& e, double g, int t) {
    e.m = 0.8 * e.m + 0.2 * g;
    e.s = 0.95 * e.s + 0.05 * g * g;
    return rate * (e.m / (1 - std::pow(0.8, t))) / (std::sqrt(e.s / (1 - std::pow(0.95, t))) + 1e-3);
  };
  const AdamW adam_w{.learning_rate = rate, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.3};
  const Adam adam_l2{.learning_rate = rate, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.3};
  return {
      {"sgd", of_ours(Sgd{.learning_rate = rate, .weight_decay = 0.1}, DecayAll{}),
       [](Element& e, double g, int, bool) { e.w -= rate * (g + 0.1 * e.w); }},
      {"momentum", of_ours(Sgd{.learning_rate = rate, .momentum = 0.9}, DecayAll{}),
       [](Element& e, double g, int, bool) {
         e.m = 0.9 * e.m + g;
         e.w -= rate * e.m;
       }},
      {"nesterov",
       of_ours(Sgd{.learning_rate = rate, .momentum = 0.5, .weight_decay = 0.1, .nesterov = true}, DecayMatrices{}),
       [](Element& e, double g, int, bool is_matrix) {
         const double d = g + (is_matrix ? 0.1 * e.w : 0);
         e.m = 0.5 * e.m + d;
         e.w -= rate * (d + 0.5 * e.m);
       }},
      {"adam", of_ours(adam_l2, DecayAll{}),
       [adam](Element& e, double g, int t, bool) { e.w -= adam(e, g + 0.3 * e.w, t); }},
      {"adamw", of_ours(adam_w, DecayMatrices{}),
       [adam](Element& e, double g, int t, bool is_matrix) {
         const double decay = is_matrix ? rate * 0.3 * e.w : 0;
         e.w -= decay + adam(e, g, t);
       }},
  };
}

TEST_CASE("optimizers: 20 steps under every strategy are those of the serial rule, and replicas keep their bits") {
  const Matrix<double> x = random_matrix({11, 5}, 1);
  const Matrix<double> target = random_matrix({11, 3}, 2);
  for_strategies([&](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    for (const Contestant& contestant : contestants()) {
      CAPTURE(contestant.name);
      auto model = two_layers<double>(grid, strategy);
      SerialTwoLayers serial = serial_of(model);
      std::vector<std::vector<Element>> elements;
      for (const auto& value : serial.values) {
        elements.emplace_back();
        for (const double w : value.elements) elements.back().push_back({w, 0, 0});
      }
      const auto step = contestant.ours(parameters_of(model));
      GradientSums sums(model);
      for (int t = 1; t <= 20; ++t) {
        zero_gradients(model);
        pass<double>(model, grid, x, target);
        sums.finish();
        const Traffic before = grid.context().comm().traffic();
        step();
        CHECK(uncounted(grid.context(), before, {}) == "");
        serial.zero();
        serial.add_gradients(x, target);
        for (std::size_t p = 0; p < elements.size(); ++p) {
          for (std::size_t i = 0; i < elements[p].size(); ++i) {
            contestant.serial(elements[p][i], serial.gradients[p].elements[i], t, serial.values[p].shape.rows > 1);
            serial.values[p].elements[i] = elements[p][i].w;
          }
        }
      }
      const auto found = whole_values(model);
      for (std::size_t p = 0; p < found.size(); ++p) CHECK(relative_difference(found[p], serial.values[p]) <= 1e-11);
      CHECK(replicas_equal(model));
    }
  });
}

template <class T>
void check_masters(float unit) {
  on_test_ranks(2, [unit](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    Linear<T, Replicated<>, ColumnShard<>, ColumnShard<>, TestContext> layer(grid, "small", 3, 4, {.bias = false});
    layer.weight().value() = from_function<T, ColumnShard<>>(grid, {3, 4}, [](index_t, index_t) { return T(1.0F); });
    Optimizer optimizer(layer, Sgd{.learning_rate = 1});
    const auto refs = parameters_of(layer);
    const float small = unit / 16;
    set_elements(context, refs[0].gradient, [&](index_t, index_t) { return small; });
    for (int t = 0; t < 32; ++t) optimizer.step();
    CHECK(optimizer.steps() == 32);
    CHECK(static_cast<float>(whole(layer.weight().value())(2, 3)) == 1 - 2 * unit);  // 32 steps too small for T alone
    int masters = 0;
    optimizer.for_each_state([&](const auto& ref, std::string_view name, View<float> master) {
      CHECK(name == "master");
      CHECK(ref.name == "small.weight");
      CHECK(elements_of(context, master)(1, 1) == 1 - 32 * small);
      ++masters;
    });
    CHECK(masters == 1);

    assign(layer.weight().value(), [] {
      Matrix<T> two({3, 4});
      for (T& w : two.elements) w = T(2.0F);
      return two;
    }());
    optimizer.reset_masters();
    optimizer.step();
    CHECK(static_cast<float>(whole(layer.weight().value())(0, 0)) == 2);
  });
}

TEST_CASE("optimizers: weights of 16 bits are fp32 masters, rounded") {
  check_masters<bfloat16>(0x1p-8F);
  check_masters<half>(0x1p-11F);
}

TEST_CASE("optimizers: state by name, and numbers outside their domain") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    auto model = two_layers<double>(grid, ColumnRow<>{});
    Optimizer optimizer(model, AdamW{.weight_decay = 0.1}, DecayMatrices{});
    std::string names;
    optimizer.for_each_state([&](const auto& ref, std::string_view name, View<double> state) {
      names += ref.name + ":" + std::string(name) + " ";
      CHECK(state.shape() == ref.block.shape());
    });
    CHECK(names ==
          "first.weight:mean first.weight:square first.bias:mean first.bias:square last.weight:mean last.weight:square "
          "last.bias:mean last.bias:square ");
    optimizer.rule().beta1 = 1;
    CHECK_THROWS_AS(optimizer.step(), ArgumentError);
    CHECK(optimizer.steps() == 0);
    const auto refused = [&](auto rule) { CHECK_THROWS_AS(Optimizer(model, rule), ArgumentError); };
    refused(Sgd{.learning_rate = -1});
    refused(Sgd{.learning_rate = std::nan("")});
    refused(Sgd{.momentum = 1});
    refused(Sgd{.weight_decay = -0.1});
    refused(Sgd{.nesterov = true});
    refused(Adam{.beta2 = 1});
    refused(Adam{.epsilon = 0});
    CHECK_THROWS_WITH(
        Optimizer(model, Sgd{.momentum = 1}),
        "ArgumentError: Sgd with learning_rate 0.010000, momentum 1.000000, weight_decay 0.000000; needed: "
        "learning_rate and weight_decay at least 0, momentum in [0, 1), above 0 for nesterov");
  });
}

}  // namespace
}  // namespace partita::test
