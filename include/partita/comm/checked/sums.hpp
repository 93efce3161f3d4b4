// SPDX-License-Identifier: Apache-2.0
// Knows a buffer that was summed in place and has not changed since.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/base/view.hpp"
#include "partita/comm/checked/record.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::detail {

/// The bytes of a view: `rows` times `row_bytes`, `ld_bytes` apart.
struct ByteRows {
  const std::byte* data = nullptr;
  std::size_t rows = 0;
  std::size_t row_bytes = 0;
  std::size_t ld_bytes = 0;

  friend bool operator==(const ByteRows&, const ByteRows&) = default;
  [[nodiscard]] const std::byte* end() const noexcept {
    return rows == 0 ? data : data + (rows - 1) * ld_bytes + row_bytes;
  }
};

template <class T>
[[nodiscard]] ByteRows bytes_of(View<T> v) noexcept {
  if (v.empty() || v.data == nullptr) return {};
  ByteRows bytes{reinterpret_cast<const std::byte*>(v.data), static_cast<std::size_t>(v.rows),
                 static_cast<std::size_t>(v.cols) * sizeof(T), static_cast<std::size_t>(v.ld) * sizeof(T)};
  if (v.contiguous()) bytes = {bytes.data, 1, bytes.rows * bytes.row_bytes, bytes.rows * bytes.row_bytes};
  return bytes;
}

/// A hash of all bytes that is never 0: sums and sums of sums, in lanes, so that a compiler makes vectors of them.
[[nodiscard]] inline std::uint64_t hash_of(const ByteRows& bytes) noexcept {
  std::array<std::uint64_t, 8> sum{};
  std::array<std::uint64_t, 8> weighted{};
  const auto add = [&](const std::byte* from, std::size_t count) {
    std::array<std::uint64_t, 8> words{};
    std::memcpy(words.data(), from, count);
    for (std::size_t i = 0; i < words.size(); ++i) sum[i] += words[i];
    for (std::size_t i = 0; i < words.size(); ++i) weighted[i] += sum[i];
  };
  for (std::size_t r = 0; r < bytes.rows; ++r) {
    const std::byte* row = bytes.data + r * bytes.ld_bytes;
    std::size_t at = 0;
    for (; at + 64 <= bytes.row_bytes; at += 64) add(row + at, 64);
    if (at < bytes.row_bytes) add(row + at, bytes.row_bytes - at);
  }
  std::uint64_t h = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) h = mix(mix(h, sum[i]), weighted[i]);
  return h | 1U;
}

/// How bytes come to the host, row after row without gaps.
using ReadBytes = std::function<void(const ByteRows& from, std::byte* to)>;

inline void read_host_bytes(const ByteRows& from, std::byte* to) noexcept {
  for (std::size_t r = 0; r < from.rows; ++r)
    std::memcpy(to + r * from.row_bytes, from.data + r * from.ld_bytes, from.row_bytes);
}

/// For the memory of a communicator's device; empty for that of the host, which is read in place. Waits for the device.
template <class C>
[[nodiscard]] ReadBytes reader_of([[maybe_unused]] const C& comm) {
  if constexpr (OnDevice<C>) {
    return [timeline = comm.timeline()](const ByteRows& from, std::byte* to) {
      timeline->read({from.data, from.ld_bytes, from.row_bytes, from.rows}, to);
    };
  } else {
    return {};
  }
}

/// A hash of the first word and of eight in part `part` of the bytes, or of all bytes where they are few. The part is
/// what a rank of a ThreadComm summed itself, so the words are in its cache.
template <class Read>
[[nodiscard]] std::uint64_t probe_of(const ByteRows& bytes, int part, int parts, const Read& read) {
  constexpr std::size_t probes = 8;
  constexpr std::size_t few = 256;
  const std::size_t total = bytes.rows * bytes.row_bytes;
  if (total <= few) {
    std::array<std::byte, few> all{};
    read(bytes, all.data());
    return hash_of({all.data(), 1, total, total});
  }
  const std::size_t width = std::min(sizeof(std::uint64_t), bytes.row_bytes);
  const std::size_t length = total / static_cast<std::size_t>(parts);
  const std::size_t begin = length * static_cast<std::size_t>(part);
  std::uint64_t h = 0;
  for (std::size_t p = 0; p <= probes; ++p) {
    const std::size_t at = p == probes ? 0 : begin + p * (length / probes);
    const std::size_t column = std::min(at % bytes.row_bytes, bytes.row_bytes - width);
    std::uint64_t word = 0;
    const std::byte* const first = bytes.data + at / bytes.row_bytes * bytes.ld_bytes + column;
    read(ByteRows{first, 1, width, width}, reinterpret_cast<std::byte*>(&word));
    h = mix(h, word);
  }
  return h;
}

/// Whether summing the view once more would leave it as it is: zeros, infinities, NaN.
template <class T>
[[nodiscard]] bool sum_is_idle(View<const T> v) noexcept {
  for (index_t i = 0; i < v.rows; ++i) {
    for (index_t j = 0; j < v.cols; ++j) {
      const T x = v(i, j);
      const T twice = static_cast<T>(x + x);
      if (twice == twice && !(twice == x)) return false;
    }
  }
  return true;
}

/// The last sum in place on one communicator, and a probe of what it left, which costs little beside the sum. Where
/// the probe is found again the whole is hashed: what a sum left is the same on all ranks, to the bit, so a buffer is
/// summed again only if these hashes are equal.
class SumGuard {
 public:
  SumGuard(int rank, int ranks) noexcept : rank_(rank), ranks_(ranks) {}

  /// For memory that the host cannot read in place; an empty `read` is for memory that it can.
  void read_by(ReadBytes read) { read_ = std::move(read); }

  void remember(const ByteRows& bytes) {
    bytes_ = bytes;
    probe_ = probe(bytes);
  }
  /// Something writes these bytes.
  void touched(const ByteRows& bytes) noexcept {
    const std::less<const std::byte*> before;
    if (bytes_.rows == 0 || bytes.rows == 0) return;
    if (before(bytes.data, bytes_.end()) && before(bytes_.data, bytes.end())) bytes_ = {};
  }
  /// The hash of the view's bytes, if they are those of the last sum and seem to hold what it left, and one more would
  /// change them; else 0.
  template <class T>
  [[nodiscard]] std::uint64_t repeated(View<const T> v) const {
    const ByteRows bytes = bytes_of(v);
    if (bytes.rows == 0 || bytes != bytes_ || probe(bytes) != probe_) return 0;
    if (!read_) return sum_is_idle<T>(v) ? 0 : hash_of(bytes);
    std::vector<T> copy(static_cast<std::size_t>(v.size()));
    read_(bytes, reinterpret_cast<std::byte*>(copy.data()));
    const View<const T> on_host(copy.data(), v.shape());
    return sum_is_idle<T>(on_host) ? 0 : hash_of(bytes_of(on_host));
  }

 private:
  [[nodiscard]] std::uint64_t probe(const ByteRows& bytes) const {
    return read_ ? probe_of(bytes, rank_, ranks_, read_) : probe_of(bytes, rank_, ranks_, read_host_bytes);
  }

  int rank_;
  int ranks_;
  ReadBytes read_;
  ByteRows bytes_;
  std::uint64_t probe_ = 0;
};

}  // namespace partita::detail
