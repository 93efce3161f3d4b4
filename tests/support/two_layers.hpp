// SPDX-License-Identifier: Apache-2.0
// A model small enough to write down: two linear layers, under a strategy and in plain loops.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "partita/nn/linear.hpp"
#include "support/layers.hpp"

namespace partita::test {

template <class T, class S>
using TwoLayers = Sequential<Linear<T, typename S::Stream, typename S::Enter, typename S::Inner, TestContext>,
                             Linear<T, typename S::Inner, typename S::Leave, typename S::Stream, TestContext>>;

struct TwoLayersSizes {
  index_t tokens = 11, in = 5, hidden = 7, out = 3;
};

template <class T, class S, class Handle>
TwoLayers<T, S> two_layers(const Handle& grid, S, const TwoLayersSizes& sizes = {}) {
  using M = TwoLayers<T, S>;
  using First = std::remove_cvref_t<decltype(std::declval<M&>().template layer<0>())>;
  using Last = std::remove_cvref_t<decltype(std::declval<M&>().template layer<1>())>;
  return M(First(grid, "first", sizes.in, sizes.hidden, {.seed = 5}),
           Last(grid, "last", sizes.hidden, sizes.out, {.seed = 6}));
}

/// The same in double: weight, bias, weight, bias, in the order of for_each_parameter.
struct SerialTwoLayers {
  std::vector<Matrix<double>> values;
  std::vector<Matrix<double>> gradients;

  /// Y, and the gradients of ½‖Y − target‖² added to those that stand.
  void add_gradients(const Matrix<double>& x, const Matrix<double>& target) {
    const auto affine = [](const Matrix<double>& a, const Matrix<double>& w, const Matrix<double>& b) {
      Matrix<double> y = product(a, w);
      for (index_t i = 0; i < y.shape.rows; ++i) {
        for (index_t j = 0; j < y.shape.cols; ++j) y(i, j) += b(0, j);
      }
      return y;
    };
    const auto turned = [](const Matrix<double>& a) {
      Matrix<double> t(a.shape.transposed());
      for (index_t i = 0; i < a.shape.rows; ++i) {
        for (index_t j = 0; j < a.shape.cols; ++j) t(j, i) = a(i, j);
      }
      return t;
    };
    const auto add = [](Matrix<double>& to, const Matrix<double>& from) {
      for (std::size_t i = 0; i < from.elements.size(); ++i) to.elements[i] += from.elements[i];
    };
    const auto column_sums = [](const Matrix<double>& a) {
      Matrix<double> sums({1, a.shape.cols});
      for (index_t i = 0; i < a.shape.rows; ++i) {
        for (index_t j = 0; j < a.shape.cols; ++j) sums(0, j) += a(i, j);
      }
      return sums;
    };
    const Matrix<double> hidden = affine(x, values[0], values[1]);
    Matrix<double> dy = affine(hidden, values[2], values[3]);
    for (std::size_t i = 0; i < dy.elements.size(); ++i) dy.elements[i] -= target.elements[i];
    const Matrix<double> dhidden = product(dy, turned(values[2]));
    add(gradients[0], product(turned(x), dhidden));
    add(gradients[1], column_sums(dhidden));
    add(gradients[2], product(turned(hidden), dy));
    add(gradients[3], column_sums(dy));
  }
  void zero() {
    for (Matrix<double>& gradient : gradients) gradient = Matrix<double>(gradient.shape);
  }
};

/// The values of a model, gathered. Collective.
template <class M>
std::vector<Matrix<double>> whole_values(M& model) {
  std::vector<Matrix<double>> all;
  model.for_each_parameter([&](auto& parameter) {
    const auto stored = whole(parameter.value());
    Matrix<double> value(stored.shape);
    for (std::size_t i = 0; i < value.elements.size(); ++i) value.elements[i] = static_cast<double>(stored.elements[i]);
    all.push_back(std::move(value));
  });
  return all;
}

template <class M>
SerialTwoLayers serial_of(M& model) {
  SerialTwoLayers serial{whole_values(model), {}};
  for (const Matrix<double>& value : serial.values) serial.gradients.emplace_back(value.shape);
  return serial;
}

/// One forward and backward pass of ½‖Y − target‖².
template <class T, class M, class Handle>
void pass(M& model, const Handle& grid, const Matrix<double>& x, const Matrix<double>& target) {
  const auto y = model.forward(distributed<T, typename M::input>(grid, x));
  auto dy = y->clone();
  const Matrix<T> found = elements_of(*y);
  const Matrix<T> wanted = elements_of(distributed<T, typename M::output>(grid, target));
  using A = accumulate_t<T>;
  set_elements(dy, [&](index_t i, index_t j) {
    return static_cast<T>(static_cast<A>(found(i, j)) - static_cast<A>(wanted(i, j)));
  });
  (void)model.backward(output_activation_t<M>(std::move(dy)));
}

/// A summed gradient in the partition of its parameter, gathered.
template <class Parameter>
auto whole_summed(Parameter& parameter) {
  using G = typename Parameter::gradient_tensor;
  auto& gradient = parameter.gradient();
  return whole(wrap<without_pending_t<typename G::partition>>(gradient.grid(), gradient.shape(), gradient.local().data,
                                                              gradient.local().ld, gradient.units()));
}

/// Whether this rank's block of every value has the bits of the first rank that holds the same block. Collective.
template <class M>
bool replicas_equal(M& model) {
  bool equal = true;
  model.for_each_parameter([&](auto& parameter) {
    const auto all = whole(parameter.value());
    const Block block = parameter.value().block();
    const auto local = elements_of(parameter.value());
    for (index_t i = 0; i < local.shape.rows; ++i) {
      for (index_t j = 0; j < local.shape.cols; ++j) {
        const auto first = all(block.rows.begin + i, block.cols.begin + j);
        equal = equal && std::memcmp(&first, &local(i, j), sizeof first) == 0;
      }
    }
  });
  return equal;
}

}  // namespace partita::test
