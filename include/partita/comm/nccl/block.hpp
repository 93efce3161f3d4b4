// SPDX-License-Identifier: Apache-2.0
// Rectangles of device memory as bytes, and the types in which NCCL adds.
#pragma once

#include <nccl.h>

#include <complex>
#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include "partita/base/error.hpp"
#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::detail {

/// `rows` rows of `width` bytes, `pitch` bytes apart.
struct NcclBlock {
  std::byte* data = nullptr;
  std::size_t pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 0;

  [[nodiscard]] std::size_t bytes() const noexcept { return width * rows; }
  [[nodiscard]] bool empty() const noexcept { return bytes() == 0; }
  [[nodiscard]] bool contiguous() const noexcept { return rows <= 1 || pitch == width; }
  /// The same rectangle without gaps, elsewhere.
  [[nodiscard]] NcclBlock packed_at(std::byte* where) const noexcept { return {where, width, width, rows}; }
};

/// Constness ends here: NCCL takes one address for what it reads and what it writes.
template <class T>
[[nodiscard]] NcclBlock nccl_block(View<T> v) noexcept {
  if (v.empty()) return {};
  const auto bytes = [](index_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  auto* data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(v.data));
  return {data, bytes(v.rows == 1 ? v.cols : v.ld), bytes(v.cols), static_cast<std::size_t>(v.rows)};
}

/// How NCCL sees the elements.
struct NcclElement {
  ncclDataType_t type = ncclInt8;
  std::size_t bytes = 1;

  [[nodiscard]] std::size_t count(std::size_t total) const noexcept { return total / bytes; }
};

/// Complex numbers are summed as pairs. Throws ArgumentError for types that NCCL does not add.
template <Summable T>
[[nodiscard]] NcclElement nccl_element(const char* operation) {
  if constexpr (is_complex_v<T>) {
    return nccl_element<typename T::value_type>(operation);
  } else if constexpr (std::same_as<T, float>) {
    return {ncclFloat32, 4};
  } else if constexpr (std::same_as<T, double>) {
    return {ncclFloat64, 8};
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    return {std::is_signed_v<T> ? ncclInt64 : ncclUint64, 8};
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
    return {std::is_signed_v<T> ? ncclInt32 : ncclUint32, 4};
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
    return {std::is_signed_v<T> ? ncclInt8 : ncclUint8, 1};
  } else {
    throw ArgumentError(std::string("ArgumentError: ") + operation + " of elements of " + std::to_string(sizeof(T)) +
                        " bytes that NCCL does not add; it adds float, double, their complex numbers, and integers of "
                        "1, 4 and 8 bytes");
  }
}

}  // namespace partita::detail
