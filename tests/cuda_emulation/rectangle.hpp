// SPDX-License-Identifier: Apache-2.0
// Rectangles of bytes: what an operation reads or writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace partita::cuda_emulation {

/// `height` rows of `width` bytes, `pitch` bytes apart.
struct Rectangle {
  std::uintptr_t base = 0;
  std::size_t pitch = 0;
  std::size_t width = 0;
  std::size_t height = 0;

  Rectangle() = default;
  Rectangle(const void* data, std::size_t pitch_bytes, std::size_t width_bytes, std::size_t rows)
      : base(reinterpret_cast<std::uintptr_t>(data)), pitch(pitch_bytes), width(width_bytes), height(rows) {
    if (height > 1 && pitch == width) {  // one run of bytes
      width *= height;
      height = 1;
    }
    if (height <= 1) pitch = width;
  }
  Rectangle(const void* data, std::size_t bytes) : Rectangle(data, bytes, bytes, 1) {}

  [[nodiscard]] bool empty() const { return width == 0 || height == 0; }
  [[nodiscard]] std::size_t span() const { return empty() ? 0 : (height - 1) * pitch + width; }
  [[nodiscard]] std::uintptr_t end() const { return base + span(); }
};

/// True if the two share a byte.
[[nodiscard]] inline bool overlap(const Rectangle& a, const Rectangle& b) {
  if (a.empty() || b.empty() || a.base >= b.end() || b.base >= a.end()) return false;
  const Rectangle& few = a.height <= b.height ? a : b;
  const Rectangle& many = a.height <= b.height ? b : a;
  for (std::size_t i = 0; i < few.height; ++i) {
    const std::uintptr_t begin = few.base + i * few.pitch;
    const std::uintptr_t end = begin + few.width;
    if (end <= many.base || begin >= many.end()) continue;
    // The first row of `many` that ends after `begin`; it meets the run if it begins before `end`.
    const std::uintptr_t first_end = many.base + many.width;
    const std::size_t row = begin < first_end ? 0 : (begin - first_end) / many.pitch + 1;
    if (row < many.height && many.base + row * many.pitch < end) return true;
  }
  return false;
}

/// True only if every byte of `inner` is in `outer`; may say false where geometry makes it hard to tell.
[[nodiscard]] inline bool contains(const Rectangle& outer, const Rectangle& inner) {
  if (inner.empty()) return true;
  if (outer.empty() || inner.base < outer.base || inner.end() > outer.end()) return false;
  if (outer.height == 1) return true;
  if (inner.height > 1 && inner.pitch != outer.pitch) return false;
  return (inner.base - outer.base) % outer.pitch + inner.width <= outer.width;
}

[[nodiscard]] inline std::string text(const Rectangle& r, std::uintptr_t origin) {
  const std::string from = "at byte " + std::to_string(r.base - origin);
  if (r.height == 1) return std::to_string(r.width) + " bytes " + from;
  return std::to_string(r.height) + " rows of " + std::to_string(r.width) + " bytes " + from + ", pitch " +
         std::to_string(r.pitch);
}

}  // namespace partita::cuda_emulation
