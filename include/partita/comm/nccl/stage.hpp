// SPDX-License-Identifier: Apache-2.0
// Room without gaps for rectangles that have some: NCCL moves contiguous memory alone.
#pragma once

#include <cstddef>

#include "partita/comm/nccl/group.hpp"

namespace partita::detail {

/// Where NCCL finds a rectangle, or leaves it: in its own place, or in staging memory at an offset.
struct NcclPlace {
  NcclBlock block;
  std::size_t offset = 0;
  bool direct = true;
};

/// The staging memory of one operation: places are asked for, then open() provides them. Copies are on the stream of
/// communication, which orders all users of the memory.
class NcclStage {
 public:
  explicit NcclStage(NcclWorld& world) noexcept : world_(world) {}

  /// Its own place where it has no gaps.
  [[nodiscard]] NcclPlace place(const NcclBlock& block) noexcept {
    return block.contiguous() ? NcclPlace{block, 0, true} : room(block);
  }
  [[nodiscard]] NcclPlace room(const NcclBlock& block) noexcept { return {block, reserve(block.bytes()), false}; }
  /// `bytes` of staging memory, aligned for every type.
  [[nodiscard]] std::size_t reserve(std::size_t bytes) noexcept {
    const std::size_t offset = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return offset;
  }
  /// Throws CapacityError.
  void open() {
    if (bytes_ > 0) base_ = world_.staging(bytes_);
  }

  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept { return base_ + offset; }
  [[nodiscard]] std::byte* at(const NcclPlace& p) const noexcept { return p.direct ? p.block.data : at(p.offset); }
  void pack(const NcclPlace& p) const {
    if (!p.direct && !p.block.empty()) world_.copy(p.block, p.block.packed_at(at(p)));
  }
  void unpack(const NcclPlace& p) const {
    if (!p.direct && !p.block.empty()) world_.copy(p.block.packed_at(at(p)), p.block);
  }

 private:
  NcclWorld& world_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace partita::detail
