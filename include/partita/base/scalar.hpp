// SPDX-License-Identifier: Apache-2.0
// The scalars of a product: float, double, complex of both, and the two 16-bit storage types.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace partita {

namespace detail {

/// Rounds the float with bits `u` to one with 8 bits of exponent and 7 of fraction, ties to even; NaN stays NaN.
constexpr std::uint16_t bfloat16_bits(float x) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((u >> 16) | 0x0040U);
  return static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

/// Rounds to IEEE binary16, ties to even; overflow gives infinity, values below 2^-14 become subnormal.
constexpr std::uint16_t half_bits(float x) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 16) & 0x8000U;
  const std::uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x1ffU));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to 2^16 or above
  if (magnitude >= 0x38800000U) {                                                   // normal in binary16
    const std::uint32_t rebased = magnitude - 0x38000000U;
    return static_cast<std::uint16_t>(sign | ((rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13));
  }
  if (magnitude < 0x33000000U) return static_cast<std::uint16_t>(sign);  // below half of the least subnormal
  const std::uint32_t exponent = magnitude >> 23;                        // 102 … 112
  const std::uint32_t fraction = (magnitude & 0x7fffffU) | 0x800000U;
  const std::uint32_t shift = 126U - exponent;  // 14 … 24: fraction * 2^-shift counts units of 2^-24
  const std::uint32_t kept = fraction >> shift;
  const std::uint32_t rest = fraction & ((1U << shift) - 1U);
  const std::uint32_t half_unit = 1U << (shift - 1U);
  const bool up = rest > half_unit || (rest == half_unit && (kept & 1U) != 0);
  return static_cast<std::uint16_t>(sign | (kept + (up ? 1U : 0U)));
}

constexpr float half_value(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace detail

/// IEEE binary16 as storage: converts from and to float, and has no arithmetic of its own.
struct half {
  std::uint16_t bits = 0;

  constexpr half() = default;
  explicit constexpr half(float x) noexcept : bits(detail::half_bits(x)) {}
  explicit constexpr operator float() const noexcept { return detail::half_value(bits); }
  friend constexpr bool operator==(half a, half b) noexcept { return static_cast<float>(a) == static_cast<float>(b); }
};

/// bfloat16 as storage: converts from and to float, and has no arithmetic of its own.
struct bfloat16 {
  std::uint16_t bits = 0;

  constexpr bfloat16() = default;
  explicit constexpr bfloat16(float x) noexcept : bits(detail::bfloat16_bits(x)) {}
  explicit constexpr operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) noexcept {
    return static_cast<float>(a) == static_cast<float>(b);
  }
};

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<std::complex<T>> = true;

/// Stored in 16 bits, summed and multiplied in fp32.
template <class T>
inline constexpr bool is_storage_only_v = std::same_as<T, half> || std::same_as<T, bfloat16>;

/// A scalar that `matmul` accepts.
template <class T>
concept MatmulScalar = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::complex<float>> ||
                       std::same_as<T, std::complex<double>> || is_storage_only_v<T>;

namespace detail {
template <class T>
struct Accumulate {
  using type = T;
};
template <class T>
  requires is_storage_only_v<T>
struct Accumulate<T> {
  using type = float;
};
}  // namespace detail

/// The type in which products, sums over panels and sums over ranks of T are carried: fp32 for 16-bit storage, else T.
template <class T>
using accumulate_t = typename detail::Accumulate<T>::type;

/// Elements that can be summed over ranks; 16-bit data is summed in fp32 only.
template <class T>
concept Summable = (std::is_arithmetic_v<T> && !std::same_as<T, bool>) || is_complex_v<T>;

}  // namespace partita
