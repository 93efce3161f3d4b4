// SPDX-License-Identifier: Apache-2.0
// A stream whose places other streams can wait for, and which knows what of theirs it has waited for already.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "partita/cuda/handles.hpp"

namespace partita::detail {

/// For each line, the number of the latest of its points that a stream has waited for.
using CudaClock = std::vector<std::uint64_t>;

/// An event, and what its stream had waited for when it was recorded.
struct CudaMark {
  CudaEvent event;
  CudaClock clock;
};

/// A place in the order of a line: the end of all that its stream had been given by then. Number 0 is the beginning,
/// for which nobody waits. Whoever holds a point of another rank keeps its mark from being used again.
struct CudaPoint {
  int line = 0;
  std::uint64_t number = 0;
  std::shared_ptr<const CudaMark> mark;  // set there, or later
};

/// One of `lines` streams that know of each other. Its own thread alone calls it.
class CudaLine {
 public:
  CudaLine(StreamPriority priority, int own, int lines)
      : stream_(priority), own_(own), known_(static_cast<std::size_t>(lines), 0) {}

  [[nodiscard]] int own() const noexcept { return own_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }
  /// The number of the last point that was recorded.
  [[nodiscard]] std::uint64_t number() const noexcept { return known_[static_cast<std::size_t>(own_)]; }

  std::uint64_t record() {
    const std::uint64_t number = this->number() + 1;
    CudaMark& mark = unused_mark(marks_[number % kept]);
    mark.event.record(stream());
    known_[static_cast<std::size_t>(own_)] = number;
    mark.clock = known_;
    return number;
  }
  /// Two points that far apart share a mark: who waits for the earlier one waits for the later one then.
  [[nodiscard]] CudaPoint point(std::uint64_t number) const noexcept {
    return {own_, number, number == 0 ? nullptr : marks_[number % kept]};
  }

  [[nodiscard]] bool knows(const CudaPoint& point) const noexcept {
    return known_[static_cast<std::size_t>(point.line)] >= point.number;
  }
  /// What the stream gets from now on comes after the point.
  void wait(const CudaPoint& point) {
    if (knows(point)) return;
    point.mark->event.hold(stream());
    const CudaClock& clock = point.mark->clock;
    for (std::size_t i = 0; i < known_.size(); ++i) known_[i] = std::max(known_[i], clock[i]);
  }

 private:
  using Mark = std::shared_ptr<CudaMark>;
  static constexpr std::uint64_t kept = 64;

  /// Puts a mark that nobody else holds into the slot.
  CudaMark& unused_mark(Mark& slot) {
    const auto is_free = [](const Mark& mark) { return mark.use_count() == 1; };
    if (slot != nullptr && is_free(slot)) return *slot;
    const auto spare = std::find_if(spare_.begin(), spare_.end(), is_free);
    if (spare != spare_.end()) {
      std::swap(*spare, slot);
      if (*spare == nullptr) spare_.erase(spare);
    } else {
      auto made = std::make_shared<CudaMark>();
      if (slot != nullptr) spare_.push_back(std::move(slot));
      slot = std::move(made);
    }
    return *slot;
  }

  CudaStream stream_;
  int own_;
  CudaClock known_;
  std::array<Mark, kept> marks_;
  std::vector<Mark> spare_;  // that others hold, or held
};

}  // namespace partita::detail
