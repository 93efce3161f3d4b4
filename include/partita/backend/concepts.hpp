// SPDX-License-Identifier: Apache-2.0
// What a backend is: the memory space and the local arithmetic of one rank.
#pragma once

#include <concepts>
#include <type_traits>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita {

/// A stored row-major block together with how it is read: as it stands, transposed, and with its elements conjugated.
/// Its logical shape is that of the operand in the product.
template <class T>
struct MatrixOperand {
  View<const T> stored;
  bool transposed = false;
  bool conjugated = false;

  [[nodiscard]] constexpr index_t rows() const noexcept { return transposed ? stored.cols : stored.rows; }
  [[nodiscard]] constexpr index_t cols() const noexcept { return transposed ? stored.rows : stored.cols; }
  /// The logical rectangle `b` of the operand.
  [[nodiscard]] constexpr MatrixOperand sub(Block b) const noexcept {
    return {stored.sub(transposed ? b.transposed() : b), transposed, conjugated};
  }
};

/// Local work on row-major views. Every view may be empty. T is a MatmulScalar, and sums are carried in
/// accumulate_t<T>; 16-bit data is widened, and rounded once where it is stored.
template <class B>
concept Backend = std::movable<B> && requires(B b, View<float> out, View<const float> in, MatrixOperand<float> operand,
                                              MatrixOperand<half> small, View<half> small_out, float factor) {
  // out += alpha · a · b. Pre: shapes match, out overlaps neither operand.
  { b.gemm(factor, operand, operand, out) } -> std::same_as<void>;
  { b.gemm(factor, small, small, out) } -> std::same_as<void>;
  { b.copy(in, out) } -> std::same_as<void>;
  // out *= beta; with beta = 0 writes zeros and does not read.
  { b.scale(factor, out) } -> std::same_as<void>;
  { b.scale(factor, small_out) } -> std::same_as<void>;
  // out = beta·out + in, rounded once to out's type; with beta = 0 out is not read.
  { b.combine(factor, in, out) } -> std::same_as<void>;
  { b.combine(factor, in, small_out) } -> std::same_as<void>;
  { b.sync() } -> std::same_as<void>;
};

/// Whether the host reads and writes the memory that the backend works on. A backend of a device has a member
/// `host_memory` that is false, and clear(view), which sets all bytes to zero; it may have reaches(address), which says
/// whether views may hold it.
template <class B>
inline constexpr bool host_memory_v = [] {
  if constexpr (requires { B::host_memory; }) {
    return B::host_memory;
  } else {
    return true;
  }
}();

/// Whether a thread other than its rank's may call the backend, or kernel, while that rank waits: it says so for
/// itself, and not for what is derived from it, by `using any_thread =` its own type.
template <class B>
inline constexpr bool any_thread_v = [] {
  if constexpr (requires { typename B::any_thread; }) {
    return std::is_same_v<typename B::any_thread, B>;
  } else {
    return false;
  }
}();

/// What may follow a product and its bias in one pass; of GELU the form by tanh.
enum class LinearActivation { none, relu, gelu_tanh };

/// A backend that may do a product, a bias and a function in one pass: linear(alpha, a, b, bias, activation, out,
/// before) sets out = activation(alpha · a · b + bias), rounded once, and before = alpha · a · b + bias, rounded once
/// too; or it gives false and has done nothing. bias is a row that is added to every row, or empty; an empty `before`
/// is not written. No backend needs to have it.
template <class B, class T>
concept LinearBackend =
    requires(B b, accumulate_t<T> alpha, MatrixOperand<T> operand, View<const T> bias, View<T> out) {
      { b.template linear<T>(alpha, operand, operand, bias, LinearActivation::none, out, out) } -> std::same_as<bool>;
    };

}  // namespace partita
