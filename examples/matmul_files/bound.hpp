// SPDX-License-Identifier: Apache-2.0
// How far a product may be from the exact one: the classical bound of rounding, element by element.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "partita/partita.hpp"

namespace matmul_files {

using namespace partita;

/// The type that carries a reference for T.
template <class T>
struct WiderType;
template <>
struct WiderType<float> {
  using type = double;
};
template <>
struct WiderType<double> {
  using type = long double;
};
template <class R>
struct WiderType<std::complex<R>> {
  using type = std::complex<typename WiderType<R>::type>;
};
template <class T>
using wider_t = typename WiderType<T>::type;

template <class T>
struct RealType {
  using type = T;
};
template <class R>
struct RealType<std::complex<R>> {
  using type = R;
};
template <class T>
using real_t = typename RealType<T>::type;

/// n·u / (1 − n·u), u half the distance from 1 to the next number of T: what n roundings in a row may add up to.
template <class T>
wider_t<real_t<T>> gamma(index_t n) {
  using W = wider_t<real_t<T>>;
  const W nu = static_cast<W>(n) * static_cast<W>(std::numeric_limits<real_t<T>>::epsilon()) / 2;
  return nu / (1 - nu);
}

/// |computed − exact| over its bound gamma(steps)·magnitude, where `magnitude` is the sum of the absolute values of all
/// terms: at most 1 where every rounding was right. Products that underflow lose up to the least positive number each.
/// Beyond T's range overflow is no error; where `exact` is NaN or infinite, `computed` must be too.
template <class T>
double error_over_bound(T computed, wider_t<T> exact, wider_t<real_t<T>> magnitude, index_t steps) {
  using R = real_t<T>;
  using W = wider_t<R>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (!std::isfinite(std::abs(exact))) {
    if constexpr (is_complex_v<T>) {
      return std::isfinite(computed.real()) && std::isfinite(computed.imag()) ? wrong : 0;
    } else {
      return std::isnan(exact) ? (std::isnan(computed) ? 0 : wrong) : (static_cast<W>(computed) == exact ? 0 : wrong);
    }
  }
  if (magnitude > static_cast<W>(std::numeric_limits<R>::max())) return 0;
  const W error = std::abs(static_cast<wider_t<T>>(computed) - exact);
  if (error == 0) return 0;
  const W underflow = static_cast<W>(steps) * static_cast<W>(std::numeric_limits<R>::denorm_min());
  const W ratio = error / (gamma<T>(steps) * magnitude + underflow);
  return ratio >= 0 ? static_cast<double>(ratio) : wrong;  // NaN compares false
}

/// A matrix in a .npy file, read as it stands or transposed.
struct Source {
  const NpyFile* file;
  bool transposed = false;

  [[nodiscard]] Shape shape() const { return transposed ? file->shape().transposed() : file->shape(); }

  /// The rectangle `block` of op(X), as elements of T in a wider type.
  template <class T>
  [[nodiscard]] Matrix<wider_t<T>> read(Block block) const {
    const Block stored = transposed ? block.transposed() : block;
    Matrix<T> elements(stored.shape());
    file->read(stored, elements.view());
    Matrix<wider_t<T>> wide(block.shape());
    for (index_t i = 0; i < wide.shape.rows; ++i) {
      for (index_t j = 0; j < wide.shape.cols; ++j) {
        wide(i, j) = static_cast<wider_t<T>>(transposed ? elements(j, i) : elements(i, j));
      }
    }
    return wide;
  }
};

/// C = alpha·op(A)·op(B) + beta·C0, computed again from the files in a wider type; `c0.file` may be null.
/// alpha = 0 reads neither A nor B; beta = 0 does not read C0.
template <class T>
class Reference {
  using W = wider_t<T>;
  using R = wider_t<real_t<T>>;

 public:
  /// `steps`: the roundings that an element of the product may have seen: k + ranks + 4.
  Reference(Source a, Source b, Source c0, T alpha, T beta, index_t steps)
      : a_(a), b_(b), c0_(c0), alpha_(alpha), beta_(beta), steps_(steps) {}

  /// The largest error_over_bound in the rectangle `block` of C, of which `c` holds the computed elements.
  [[nodiscard]] double largest_error(Block block, View<const T> c) const {
    constexpr index_t tile = 64;  // of rows and columns: bounds the memory that the reference takes
    double largest = 0;
    for (index_t j = block.cols.begin; j < block.cols.end; j += tile) {
      const Range cols{j, std::min(j + tile, block.cols.end)};
      const Terms b = read(b_, {{0, b_.shape().rows}, cols});
      for (index_t i = block.rows.begin; i < block.rows.end; i += tile) {
        const Block part{{i, std::min(i + tile, block.rows.end)}, cols};
        const Terms a = read(a_, {part.rows, {0, a_.shape().cols}});
        const Block local{part.rows.relative_to(block.rows.begin), part.cols.relative_to(block.cols.begin)};
        largest = std::max(largest, tile_error(part, a, b, c.sub(local)));
      }
    }
    return largest;
  }

 private:
  struct Terms {
    Matrix<W> values;
    Matrix<R> magnitudes;
  };

  [[nodiscard]] Terms read(const Source& source, Block block) const {
    if (alpha_ == T(0)) return {};
    Terms terms{source.read<T>(block), Matrix<R>(block.shape())};
    std::transform(terms.values.elements.begin(), terms.values.elements.end(), terms.magnitudes.elements.begin(),
                   [](W x) { return std::abs(x); });
    return terms;
  }

  [[nodiscard]] double tile_error(Block part, const Terms& a, const Terms& b, View<const T> c) const {
    const Matrix<W> c0 = beta_ == T(0) ? Matrix<W>() : c0_.read<T>(part);
    const W alpha = static_cast<W>(alpha_);
    const W beta = static_cast<W>(beta_);
    const index_t columns = part.cols.size();
    std::vector<W> sum(static_cast<std::size_t>(columns));
    std::vector<R> magnitude(sum.size());
    double largest = 0;
    for (index_t i = 0; i < part.rows.size(); ++i) {
      std::fill(sum.begin(), sum.end(), W(0));
      std::fill(magnitude.begin(), magnitude.end(), R(0));
      for (index_t k = 0; k < a.values.shape.cols; ++k) {
        const W* row = &b.values(k, 0);
        const R* row_magnitude = &b.magnitudes(k, 0);
        for (std::size_t j = 0; j < sum.size(); ++j) {
          sum[j] += a.values(i, k) * row[j];
          magnitude[j] += a.magnitudes(i, k) * row_magnitude[j];
        }
      }
      for (std::size_t j = 0; j < sum.size(); ++j) {
        const auto column = static_cast<index_t>(j);
        W exact = alpha_ == T(0) ? W(0) : alpha * sum[j];
        R terms = alpha_ == T(0) ? R(0) : std::abs(alpha) * magnitude[j];
        if (beta_ != T(0)) {
          exact += beta * c0(i, column);
          terms += std::abs(beta) * std::abs(c0(i, column));
        }
        largest = std::max(largest, error_over_bound(c(i, column), exact, terms, steps_));
      }
    }
    return largest;
  }

  Source a_, b_, c0_;
  T alpha_, beta_;
  index_t steps_;
};

}  // namespace matmul_files
