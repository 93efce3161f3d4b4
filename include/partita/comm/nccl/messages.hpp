// SPDX-License-Identifier: Apache-2.0
// Sends and receives that a rank has asked for and not begun: they begin together, as NCCL wants it of messages that
// may wait for each other.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/nccl/block.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita::detail {

struct NcclGroup;

struct NcclMessage {
  std::shared_ptr<NcclGroup> group;
  bool sends = false;
  int peer = 0;
  int tag = 0;
  Shape shape;
  std::size_t element_bytes = 0;
  NcclBlock block;
  CudaAccess access;
  bool begun = false;
};

struct NcclMessages {
  std::vector<std::shared_ptr<NcclMessage>> waiting;  // to and from peers
  std::vector<std::shared_ptr<NcclMessage>> halves;   // of messages of a rank to itself

  void clear() noexcept {
    waiting.clear();
    halves.clear();
  }
  void forget(const std::shared_ptr<NcclMessage>& message) noexcept {
    std::erase(waiting, message);
    std::erase(halves, message);
  }
  /// Whether `access` and a message that has not begun touch the same memory, and one of them writes.
  [[nodiscard]] bool clashes(const CudaAccess& access) const noexcept {
    const auto meets = [&access](const std::shared_ptr<NcclMessage>& m) { return conflict(m->access, access); };
    return std::any_of(waiting.begin(), waiting.end(), meets) || std::any_of(halves.begin(), halves.end(), meets);
  }
  /// The first half that `message` completes, or null.
  [[nodiscard]] std::shared_ptr<NcclMessage> take_other_half(const NcclMessage& message) noexcept {
    const auto fits = [&message](const std::shared_ptr<NcclMessage>& half) {
      return half->group == message.group && half->sends != message.sends && half->tag == message.tag;
    };
    const auto found = std::find_if(halves.begin(), halves.end(), fits);
    if (found == halves.end()) return nullptr;
    std::shared_ptr<NcclMessage> half = std::move(*found);
    halves.erase(found);
    return half;
  }
};

}  // namespace partita::detail
