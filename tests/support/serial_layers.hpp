// SPDX-License-Identifier: Apache-2.0
// Layers in plain serial loops, in double: what the distributed ones are compared with.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "partita/nn/seed.hpp"
#include "partita/nn/transformer_block.hpp"
#include "support/layers.hpp"

namespace partita::test {

template <class T>
Matrix<T> converted(const Matrix<double>& m) {
  Matrix<T> out(m.shape);
  for (std::size_t i = 0; i < m.elements.size(); ++i) {
    out.elements[i] = static_cast<T>(static_cast<accumulate_t<T>>(m.elements[i]));
  }
  return out;
}

/// X·W + b.
inline Matrix<double> serial_linear(const Matrix<double>& x, const Matrix<double>& w, const Matrix<double>& b) {
  Matrix<double> y = product(x, w);
  for (index_t i = 0; i < y.shape.rows; ++i) {
    for (index_t j = 0; j < y.shape.cols; ++j) y(i, j) += b(0, j);
  }
  return y;
}

inline Matrix<double> serial_norm(const Matrix<double>& x, const Matrix<double>& gain, const Matrix<double>& shift,
                                  double eps = 1e-5) {
  Matrix<double> y(x.shape);
  const auto n = static_cast<double>(x.shape.cols);
  for (index_t i = 0; i < x.shape.rows; ++i) {
    double mean = 0, variance = 0;
    for (index_t j = 0; j < x.shape.cols; ++j) mean += x(i, j) / n;
    for (index_t j = 0; j < x.shape.cols; ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / n;
    for (index_t j = 0; j < x.shape.cols; ++j) {
      y(i, j) = (x(i, j) - mean) / std::sqrt(variance + eps) * gain(0, j) + shift(0, j);
    }
  }
  return y;
}

inline double serial_gelu(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }

/// What a dropout layer with this seed and rate makes of x.
inline Matrix<double> serial_dropout(const Matrix<double>& x, double rate, std::uint64_t seed, std::uint64_t step) {
  Matrix<double> y(x.shape);
  for (index_t i = 0; i < x.shape.rows; ++i) {
    for (index_t j = 0; j < x.shape.cols; ++j) {
      const bool kept = rate == 0 || random_unit(seed, i, j, static_cast<std::uint32_t>(step)) >= rate;
      y(i, j) = kept ? x(i, j) / (1 - rate) : 0;
    }
  }
  return y;
}

/// Of one attention layer: its sizes, and its parameters with those of queries, keys and values apart.
struct SerialAttention {
  AttentionOptions options;
  index_t width = 1;
  Matrix<double> wq, wk, wv, bq, bk, bv, wo, bo;

  SerialAttention(index_t features, const AttentionOptions& chosen, std::uint64_t seed) : options(chosen) {
    width = options.head_width > 0 ? options.head_width : features / options.heads;
    const index_t inner = options.heads * width;
    std::uint64_t next = 100 * seed;
    for (Matrix<double>* w : {&wq, &wk, &wv}) *w = random_matrix({features, inner}, ++next);
    for (Matrix<double>* b : {&bq, &bk, &bv}) *b = random_matrix({1, inner}, ++next);
    wo = random_matrix({inner, features}, ++next);
    bo = random_matrix({1, features}, ++next);
  }

  [[nodiscard]] Matrix<double> operator()(const Matrix<double>& x, const Pass& pass) const {
    const Matrix<double> q = serial_linear(x, wq, bq), k = serial_linear(x, wk, bk), v = serial_linear(x, wv, bv);
    Matrix<double> heads(q.shape);
    const index_t s = options.sequence;
    for (index_t b = 0; b < x.shape.rows / s; ++b) {
      const index_t n = pass.lengths.empty() ? s : pass.lengths[static_cast<std::size_t>(b)];
      for (index_t h = 0; h < options.heads; ++h) {
        for (index_t i = 0; i < n; ++i) attend(b * s, n, h, i, q, k, v, pass, heads);
      }
    }
    return serial_linear(heads, wo, bo);
  }

  /// The query `i` of head `h`, over the n tokens from row `first`.
  void attend(index_t first, index_t n, index_t h, index_t i, const Matrix<double>& q, const Matrix<double>& k,
              const Matrix<double>& v, const Pass& pass, Matrix<double>& heads) const {
    std::vector<double> e(static_cast<std::size_t>(n));
    double sum = 0;
    for (index_t j = 0; j < n; ++j) {
      if (options.causal && j > i) continue;
      double dot = 0;
      for (index_t c = h * width; c < (h + 1) * width; ++c) dot += q(first + i, c) * k(first + j, c);
      e[static_cast<std::size_t>(j)] = std::exp(dot / std::sqrt(static_cast<double>(width)));
      sum += e[static_cast<std::size_t>(j)];
    }
    for (index_t j = 0; j < n; ++j) {
      double p = e[static_cast<std::size_t>(j)] / sum;
      if (options.dropout > 0 && pass.training) {
        const bool kept = random_unit(seed_of_part(options.seed, 2), first + i, h * options.sequence + j,
                                      static_cast<std::uint32_t>(pass.step)) >= options.dropout;
        p = kept ? p / (1 - options.dropout) : 0;
      }
      for (index_t c = h * width; c < (h + 1) * width; ++c) heads(first + i, c) += p * v(first + j, c);
    }
  }

  /// The parameters as the layer holds them, in the order in which it names them.
  [[nodiscard]] static std::vector<Matrix<double>> joined(const std::vector<Matrix<double>>& m, index_t heads) {
    return {join_query_key_value(m[0], m[1], m[2], heads), join_query_key_value(m[3], m[4], m[5], heads), m[6], m[7]};
  }
  [[nodiscard]] std::vector<Matrix<double>*> parameters() { return {&wq, &wk, &wv, &bq, &bk, &bv, &wo, &bo}; }
};

/// A layer's loss Σ dy·f(x) in serial: its value, and the gradients by central differences of x and of the parameters.
struct SerialRun {
  Matrix<double> y, dx;
  std::vector<Matrix<double>> gradients;
};
inline SerialRun serial_run(Matrix<double>& x, const Matrix<double>& dy, const std::vector<Matrix<double>*>& parameters,
                            const std::function<Matrix<double>()>& f) {
  const auto loss = [&] { return weighted_sum(f(), dy); };
  SerialRun run{f(), central_differences(x, loss), {}};
  for (Matrix<double>* parameter : parameters) run.gradients.push_back(central_differences(*parameter, loss));
  return run;
}

/// Sets the parameters of a layer, in the order in which it names them, to what all ranks hold.
template <class L>
void assign_parameters(L& layer, const std::vector<Matrix<double>>& values) {
  std::size_t next = 0;
  layer.for_each_parameter([&](auto& parameter) {
    using T = typename std::remove_cvref_t<decltype(parameter)>::value_type;
    assign(parameter.value(), converted<T>(values.at(next++)));
  });
  CHECK(next == values.size());
}

/// The largest relative_difference() of a layer's gradients and the serial ones.
template <class L>
double gradient_difference(L& layer, const std::vector<Matrix<double>>& wanted) {
  double largest = 0;
  std::size_t next = 0;
  layer.for_each_parameter([&](auto& parameter) {
    largest = std::max(largest, relative_difference(whole(parameter.gradient()), wanted.at(next++)));
  });
  return largest;
}

/// What a layer gave in both directions, gathered; and whether it communicated what its schedules say.
template <class T>
struct Result {
  Matrix<T> y, dx;
  std::string uncounted_forward, uncounted_backward;
};
template <class L, class Handle>
auto run_layer(L& layer, const Handle& grid, const Matrix<double>& x, const Matrix<double>& dy, Units units,
               const Pass& pass = {}) {
  using T = typename L::value_type;
  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{x.shape, units};
  auto input = distributed<T, typename L::input>(grid, x, units);
  auto gradient = distributed<T, typename L::output>(grid, dy, layer.output_extent(extent).units);
  Result<T> result;
  Traffic before = context.comm().traffic();
  const auto y = layer.forward(std::move(input), pass);
  result.uncounted_forward = uncounted(context, before, count_of(forward_schedule(layer, place, extent)));
  before = context.comm().traffic();
  const auto dx = layer.backward(std::move(gradient));
  result.uncounted_backward = uncounted(context, before, count_of(backward_schedule(layer, place, extent)));
  result.y = whole(y);
  result.dx = whole(dx);
  return result;
}

}  // namespace partita::test
