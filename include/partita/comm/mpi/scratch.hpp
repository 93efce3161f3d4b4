// SPDX-License-Identifier: Apache-2.0
// Memory for messages that are packed or added up, used again: fresh pages cost more than the copies into them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace partita::detail {

class MpiScratch {
 public:
  struct Piece {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  [[nodiscard]] Piece take(std::size_t bytes) {
    const auto fits = [bytes](const Piece& p) { return p.bytes >= bytes && p.bytes / 4 <= bytes; };
    const auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found == free_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    Piece piece = std::move(*found);
    free_.erase(found);
    held_ -= piece.bytes;
    return piece;
  }

  /// Keeps little: the oldest pieces make room.
  void give(Piece piece) noexcept {
    if (piece.bytes > most_bytes) return;
    try {
      free_.reserve(most_pieces + 1);
    } catch (...) {
      return;
    }
    held_ += piece.bytes;
    free_.push_back(std::move(piece));
    while (free_.size() > most_pieces || held_ > most_bytes) {
      held_ -= free_.front().bytes;
      free_.erase(free_.begin());
    }
  }

 private:
  static constexpr std::size_t most_pieces = 16;
  static constexpr std::size_t most_bytes = std::size_t{32} << 20;

  std::vector<Piece> free_;
  std::size_t held_ = 0;
};

}  // namespace partita::detail
