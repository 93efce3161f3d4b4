// SPDX-License-Identifier: Apache-2.0
// The latest calls of one rank, over all communicators split from one: to be printed when a call is missing.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>

#include "partita/comm/checked/record.hpp"

namespace partita::detail {

/// A ring of the last 256 calls. Its rank writes; any rank that shares its memory may read.
class EventLog {
 public:
  static constexpr std::size_t capacity = 256;

  void add(const CallRecord& record) noexcept {
    const std::lock_guard lock(mutex_);
    ring_[count_ % capacity] = record;
    ++count_;
  }
  void name(std::uint64_t communicator, const std::string& text) {
    const std::lock_guard lock(mutex_);
    names_[communicator] = text;
  }

  [[nodiscard]] std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  [[nodiscard]] std::string last() const {
    const std::lock_guard lock(mutex_);
    return count_ == 0 ? "nothing yet" : line(count_ - 1);
  }
  /// The last call and, where that is no message, the last message too.
  [[nodiscard]] std::string last_and_message() const {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) return "nothing yet";
    std::string text = line(count_ - 1);
    for (std::uint64_t i = count_; i-- > count_ - std::min<std::uint64_t>(count_, capacity);) {
      if (!ring_[i % capacity].is_message()) continue;
      return i == count_ - 1 ? text : text + ", after " + line(i);
    }
    return text;
  }
  /// One line for each call, the oldest first.
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (std::uint64_t i = count_ - std::min<std::uint64_t>(count_, capacity); i < count_; ++i) {
      all += "    " + std::to_string(i) + ": " + line(i) + "\n";
    }
    return all;
  }

  /// Elements that comparisons moved on communicators that cannot carry them. Of the rank's own thread.
  Traffic comparisons;

 private:
  [[nodiscard]] std::string line(std::uint64_t i) const {
    const CallRecord& r = ring_[i % capacity];
    const auto found = names_.find(r.communicator);
    return text_of(r) + " (call " + std::to_string(r.sequence) + " of " +
           (found == names_.end() ? "a communicator" : found->second) + ")";
  }

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::array<CallRecord, capacity> ring_;
  std::map<std::uint64_t, std::string> names_;
};

}  // namespace partita::detail
