// SPDX-License-Identifier: Apache-2.0
// Functions of one number and their slopes: what an element-wise layer applies.
#pragma once

#include <cmath>

#include "partita/backend/concepts.hpp"

namespace partita::kernel {

/// x·Φ(x), Φ the normal distribution's (Hendrycks and Gimpel, 2016, section 2).
struct ExactGelu {
  static constexpr const char* name = "Gelu";

  template <class A>
  [[nodiscard]] static constexpr A value(A x) {
    return x * normal_below(x);
  }
  template <class A>
  [[nodiscard]] static constexpr A slope(A x) {
    constexpr A density_at_zero = A(0.398942280401432677939946);  // 1/√(2π)
    return normal_below(x) + x * density_at_zero * std::exp(-x * x / 2);
  }

 private:
  /// Φ(x) by erfc, which keeps its relative accuracy where 1 + erf cancels.
  template <class A>
  [[nodiscard]] static constexpr A normal_below(A x) {
    constexpr A half_root = A(0.707106781186547524400844);  // 1/√2
    return std::erfc(-x * half_root) / 2;
  }
};

/// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), the approximation of the same paper.
struct TanhGelu {
  static constexpr const char* name = "Gelu";
  /// What a backend that does it in the pass of a product calls it.
  static constexpr LinearActivation activation = LinearActivation::gelu_tanh;

  template <class A>
  [[nodiscard]] static constexpr A value(A x) {
    return x / 2 * (1 + std::tanh(inner(x)));
  }
  template <class A>
  [[nodiscard]] static constexpr A slope(A x) {
    const A t = std::tanh(inner(x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * A(root) * (1 + 3 * A(cubic) * x * x);
  }

 private:
  static constexpr double root = 0.797884560802865355879892;  // √(2/π)
  static constexpr double cubic = 0.044715;

  template <class A>
  [[nodiscard]] static constexpr A inner(A x) {
    return A(root) * (x + A(cubic) * x * x * x);
  }
};

/// max(x, 0), whose slope at 0 is taken as 0; NaN stays NaN.
struct Relu {
  static constexpr const char* name = "Relu";

  template <class A>
  [[nodiscard]] static constexpr A value(A x) {
    return x < 0 ? A(0) : x;
  }
  template <class A>
  [[nodiscard]] static constexpr A slope(A x) {
    return x > 0 ? A(1) : A(0);
  }
};

}  // namespace partita::kernel
