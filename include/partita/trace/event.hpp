// SPDX-License-Identifier: Apache-2.0
// Hooks that communicators and backends call at the start of each operation; nothing happens without a sink.
#pragma once

#include "partita/base/config.hpp"

namespace partita {

/// One operation as its rank begins it. `operation` is a literal; `root` is the root or the peer, -1 without one.
/// `elements` is the size of the whole: n of a broadcast or a reduction, all blocks of a gather or a scatter, all
/// that is received of an exchange.
struct Event {
  const char* operation = "";
  int rank = 0;
  int size = 1;
  int root = -1;
  index_t elements = 0;
  index_t bytes = 0;
};

/// Receives the events of one thread. `record` runs after the arguments are checked and before anything is sent or
/// posted. It may throw: the operation is then not begun, and the exception leaves the call that asked for it.
class EventSink {
 public:
  virtual void record(const Event& event) = 0;

 protected:
  ~EventSink() = default;
};

namespace detail {
inline thread_local constinit EventSink* event_sink = nullptr;
}  // namespace detail

/// While it lives, the events of this thread go to `sink`; then to the sink before it.
class SinkScope {
 public:
  explicit SinkScope(EventSink& sink) noexcept : previous_(detail::event_sink) { detail::event_sink = &sink; }
  ~SinkScope() { detail::event_sink = previous_; }
  SinkScope(const SinkScope&) = delete;
  SinkScope& operator=(const SinkScope&) = delete;

 private:
  EventSink* previous_;
};

/// Hands the event to this thread's sink, if it has one.
inline void emit(const Event& event) {
  if (detail::event_sink != nullptr) detail::event_sink->record(event);
}

}  // namespace partita
