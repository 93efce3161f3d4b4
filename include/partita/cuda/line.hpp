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

/// A place in the order of a line: the end of all that its stream had been given by then. Number 0 is the beginning,
/// for which nobody waits. Whoever holds a point of another rank keeps its event from being recorded again.
struct CudaPoint {
  int line = 0;
  std::uint64_t number = 0;
  std::shared_ptr<const CudaEvent> event;  // recorded there, or later
};

/// For each line, the number of the latest of its points that a stream has waited for.
using CudaClock = std::vector<std::uint64_t>;

inline void join(CudaClock& clock, const CudaClock& other) noexcept {
  for (std::size_t i = 0; i < clock.size() && i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// One of `lines` streams that know of each other. Its own thread alone calls it.
class CudaLine {
 public:
  CudaLine(StreamPriority priority, int own, int lines)
      : stream_(priority), own_(own), known_(static_cast<std::size_t>(lines), 0) {
    clocks_.fill(known_);
  }

  [[nodiscard]] int own() const noexcept { return own_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }
  /// The number of the last point that was recorded.
  [[nodiscard]] std::uint64_t number() const noexcept { return known_[static_cast<std::size_t>(own_)]; }

  std::uint64_t record() {
    const std::uint64_t number = this->number() + 1;
    unused_event(events_[number % kept]).record(stream());
    known_[static_cast<std::size_t>(own_)] = number;
    clocks_[number % kept] = known_;
    return number;
  }
  /// Two points that far apart share an event: who waits for the earlier one waits for the later one then.
  [[nodiscard]] CudaPoint point(std::uint64_t number) const noexcept {
    return {own_, number, number == 0 ? nullptr : events_[number % kept]};
  }
  /// What the stream had waited for at this point, or later.
  [[nodiscard]] const CudaClock& clock(std::uint64_t number) const noexcept { return clocks_[number % kept]; }

  [[nodiscard]] bool knows(const CudaPoint& point) const noexcept {
    return known_[static_cast<std::size_t>(point.line)] >= point.number;
  }
  /// What the stream gets from now on comes after the point; `clock` is what that one had waited for, where known.
  void wait(const CudaPoint& point, const CudaClock* clock = nullptr) {
    if (knows(point)) return;
    point.event->hold(stream());
    known_[static_cast<std::size_t>(point.line)] = point.number;
    if (clock != nullptr) join(known_, *clock);
  }

 private:
  using Event = std::shared_ptr<const CudaEvent>;
  static constexpr std::uint64_t kept = 64;

  /// Puts an event that nobody else holds into the slot.
  const CudaEvent& unused_event(Event& slot) {
    const auto is_free = [](const Event& event) { return event.use_count() == 1; };
    if (slot != nullptr && is_free(slot)) return *slot;
    const auto spare = std::find_if(spare_.begin(), spare_.end(), is_free);
    if (spare != spare_.end()) {
      std::swap(*spare, slot);
      if (*spare == nullptr) spare_.erase(spare);
    } else {
      auto made = std::make_shared<const CudaEvent>();
      if (slot != nullptr) spare_.push_back(std::move(slot));
      slot = std::move(made);
    }
    return *slot;
  }

  CudaStream stream_;
  int own_;
  std::array<Event, kept> events_;
  std::vector<Event> spare_;  // that others hold, or held
  CudaClock known_;
  std::array<CudaClock, kept> clocks_;
};

}  // namespace partita::detail
