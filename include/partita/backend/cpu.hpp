// SPDX-License-Identifier: Apache-2.0
// The CPU backend: a library's product, and plain loops for what surrounds it.
#pragma once

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/backend/concepts.hpp"

namespace partita {

/// What multiplies: c += alpha·a·b for float, double and their complex types, with operands read as they stand or
/// transposed, none of them empty and none conjugated. A kernel that multiplies 16-bit data itself has narrow_gemm()
/// too, which returns whether it did (backend/onednn.hpp).
template <class K>
concept CpuKernel =
    std::movable<K> && requires(K k, const MatrixOperand<float>& s, const MatrixOperand<std::complex<double>>& z) {
      k.gemm(1.0F, s, s, View<float>());
      k.gemm(std::complex<double>(1), z, z, View<std::complex<double>>());
    };

/// Host memory, and a Kernel for products: EigenBackend (backend/eigen.hpp), BlasBackend (backend/blas.hpp). Scratch
/// memory for widened or conjugated operands is kept between calls.
template <CpuKernel Kernel>
class CpuBackend {
 public:
  using any_thread = std::conditional_t<any_thread_v<Kernel>, CpuBackend, void>;

  CpuBackend() = default;
  explicit CpuBackend(Kernel kernel) : kernel_(std::move(kernel)) {}

  /// out += alpha·a·b, where a is m×k, b k×n and out m×n. 16-bit operands are widened to fp32 in slices of k where
  /// the kernel has no product for them.
  template <MatmulScalar T>
  void gemm(accumulate_t<T> alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<accumulate_t<T>> out) {
    if (out.empty() || a.cols() == 0) return;
    if constexpr (is_storage_only_v<T>) {
      if constexpr (requires { kernel_.narrow_gemm(alpha, a, b, out); }) {
        if (kernel_.narrow_gemm(alpha, a, b, out)) return;
      }
      for (index_t k = 0; k < a.cols(); k += widened_k) {
        const Range slice{k, std::min(k + widened_k, a.cols())};
        const auto left = prepare<float>(a.sub({{0, a.rows()}, slice}), left_);
        const auto right = prepare<float>(b.sub({slice, {0, b.cols()}}), right_);
        kernel_.gemm(alpha, left, right, out);
      }
    } else if constexpr (is_complex_v<T>) {
      const auto left = a.conjugated ? prepare<T>(a, left_) : a;
      const auto right = b.conjugated ? prepare<T>(b, right_) : b;
      kernel_.gemm(alpha, left, right, out);
    } else {
      kernel_.gemm(alpha, a, b, out);
    }
  }

  template <class T>
  void copy(View<const T> in, View<T> out) {
    for (index_t i = 0; i < out.rows && !out.empty(); ++i) std::copy_n(in.row(i), out.cols, out.row(i));
  }

  /// out = beta·out. With beta = 0 the old values, NaN among them, do not survive.
  template <MatmulScalar T>
  void scale(accumulate_t<T> beta, View<T> out) {
    using A = accumulate_t<T>;
    if (beta == A(1)) return;
    for (index_t i = 0; i < out.rows && !out.empty(); ++i) {
      if (beta == A(0)) {
        std::fill_n(out.row(i), out.cols, T{});
      } else {
        std::transform(out.row(i), out.row(i) + out.cols, out.row(i),
                       [beta](T x) { return static_cast<T>(beta * static_cast<A>(x)); });
      }
    }
  }

  /// out = beta·out + in, rounded once.
  template <MatmulScalar T>
  void combine(accumulate_t<T> beta, View<const accumulate_t<T>> in, View<T> out) {
    using A = accumulate_t<T>;
    for (index_t i = 0; i < out.rows && !out.empty(); ++i) {
      const A* x = in.row(i);
      T* y = out.row(i);
      for (index_t j = 0; j < out.cols; ++j) {
        y[j] = beta == A(0) ? static_cast<T>(x[j]) : static_cast<T>(beta * static_cast<A>(y[j]) + x[j]);
      }
    }
  }

  void sync() noexcept {}

 private:
  static constexpr index_t widened_k = 512;

  /// A copy of the operand in its stored orientation, converted to U and conjugated where it asks for it.
  template <class U, class T>
  MatrixOperand<U> prepare(const MatrixOperand<T>& x, std::vector<std::byte>& scratch) {
    const auto count = static_cast<std::size_t>(x.stored.size());
    if (scratch.size() < count * sizeof(U) + alignof(U)) scratch.resize(count * sizeof(U) + alignof(U));
    U* out = reinterpret_cast<U*>(scratch.data());
    for (index_t i = 0; i < x.stored.rows; ++i) {
      const T* row = x.stored.row(i);
      U* copy = out + i * x.stored.cols;
      for (index_t j = 0; j < x.stored.cols; ++j) {
        if constexpr (is_complex_v<T>) {
          copy[j] = std::conj(row[j]);
        } else {
          copy[j] = static_cast<U>(row[j]);
        }
      }
    }
    return {View<const U>(out, x.stored.shape()), x.transposed, false};
  }

  Kernel kernel_;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
};

}  // namespace partita
