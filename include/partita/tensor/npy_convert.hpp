// SPDX-License-Identifier: Apache-2.0
// Conversions between the element types of .npy files and the library's scalars, each rounded once.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "partita/base/scalar.hpp"
#include "partita/tensor/npy_header.hpp"

namespace partita {

/// A type to which the elements of a .npy file convert.
template <class T>
concept NpyScalar = MatmulScalar<T> || std::same_as<T, std::int64_t>;

namespace detail {

/// A stored truth value: any byte but 0 is true.
struct NpyBool {
  std::uint8_t byte = 0;
};

/// Calls f(std::type_identity<S>) with the type S that stores the elements of `type`.
template <class F>
decltype(auto) visit_npy_type(NpyType type, F&& f) {
  switch (type) {
    case NpyType::float16:
      return f(std::type_identity<half>{});
    case NpyType::float32:
      return f(std::type_identity<float>{});
    case NpyType::float64:
      return f(std::type_identity<double>{});
    case NpyType::complex64:
      return f(std::type_identity<std::complex<float>>{});
    case NpyType::complex128:
      return f(std::type_identity<std::complex<double>>{});
    case NpyType::int8:
      return f(std::type_identity<std::int8_t>{});
    case NpyType::int16:
      return f(std::type_identity<std::int16_t>{});
    case NpyType::int32:
      return f(std::type_identity<std::int32_t>{});
    case NpyType::int64:
      return f(std::type_identity<std::int64_t>{});
    case NpyType::uint8:
      return f(std::type_identity<std::uint8_t>{});
    case NpyType::uint16:
      return f(std::type_identity<std::uint16_t>{});
    case NpyType::uint32:
      return f(std::type_identity<std::uint32_t>{});
    case NpyType::uint64:
      return f(std::type_identity<std::uint64_t>{});
    case NpyType::boolean:
      break;
  }
  return f(std::type_identity<NpyBool>{});
}

/// Stored as S, wanted as T: a complex number has no real value here, and a real one no integer value.
template <class S, class T>
inline constexpr bool npy_converts_v =
    (!is_complex_v<S> || is_complex_v<T>) &&
    !(std::same_as<T, std::int64_t> && (std::floating_point<S> || is_storage_only_v<S>));

/// The float next to x whose last bit is odd unless x is a float: rounding it to 16 bits equals rounding x itself.
inline float odd_float(double x) noexcept {
  const auto nearest = static_cast<float>(x);
  const double back = nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (back == x || std::isnan(x) || std::isinf(nearest) || (bits & 1U) != 0) return nearest;
  return std::bit_cast<float>(std::abs(back) < std::abs(x) ? bits + 1U : bits - 1U);
}

/// x as a double with whatever 53 bits cannot hold kept in a sticky bit, for the same purpose.
template <std::integral S>
double odd_double(S x) noexcept {
  const bool negative = x < 0;
  auto magnitude = static_cast<std::uint64_t>(x);
  if (negative) magnitude = 0 - magnitude;
  if ((magnitude >> 53) != 0) magnitude = (magnitude & ~std::uint64_t{0x7ff}) | ((magnitude & 0x7ff) != 0 ? 0x800 : 0);
  const auto value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

/// The value of `s` in T, rounded once, ties to even; what exceeds T's range becomes infinite.
/// Pre: npy_converts_v<S, T>, and an unsigned s fits where T is int64.
template <class T, class S>
T npy_value(S s) noexcept {
  if constexpr (std::same_as<S, T>) {
    return s;
  } else if constexpr (std::same_as<S, NpyBool>) {
    return npy_value<T>(static_cast<std::uint8_t>(s.byte != 0));
  } else if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    if constexpr (is_complex_v<S>) {
      return T(npy_value<Real>(s.real()), npy_value<Real>(s.imag()));
    } else {
      return T(npy_value<Real>(s));
    }
  } else if constexpr (is_storage_only_v<S>) {
    return npy_value<T>(static_cast<float>(s));
  } else if constexpr (is_storage_only_v<T>) {
    if constexpr (std::integral<S>) {
      return T(odd_float(odd_double(s)));
    } else {
      return T(odd_float(static_cast<double>(s)));
    }
  } else {
    return static_cast<T>(s);
  }
}

/// The element of type S whose bytes start at `bytes`, which need not be aligned.
template <class S>
S load_npy_element(const std::byte* bytes) noexcept {
  S s;
  std::memcpy(static_cast<void*>(&s), bytes, sizeof(S));
  return s;
}

}  // namespace detail

/// The stored type that holds every T exactly and in as few bytes as the format allows: bfloat16 widens to float32.
template <NpyScalar T>
[[nodiscard]] constexpr NpyType npy_type_of() noexcept {
  if constexpr (std::same_as<T, half>) return NpyType::float16;
  if constexpr (std::same_as<T, float> || std::same_as<T, bfloat16>) return NpyType::float32;
  if constexpr (std::same_as<T, double>) return NpyType::float64;
  if constexpr (std::same_as<T, std::complex<float>>) return NpyType::complex64;
  if constexpr (std::same_as<T, std::complex<double>>) return NpyType::complex128;
  return NpyType::int64;
}

}  // namespace partita
