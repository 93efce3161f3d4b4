// SPDX-License-Identifier: Apache-2.0
// Streams and events: what stands behind NVIDIA's opaque handles.
#pragma once

#include <chrono>
#include <deque>

#include "cuda_emulation/operation.hpp"

struct CUstream_st {
  int device = 0;
  bool blocking = true;  // joins the legacy default stream
  bool legacy = false;
  int priority = 0;
  bool closing = false;
  bool ended = false;    // its thread is gone
  std::size_t slot = 0;  // of the clocks
  std::uint64_t tick = 0;
  std::uint64_t touched = 0;  // the tick of the last operation that touched memory which may still be there
  std::uint64_t number = 0;
  std::string label;
  std::deque<std::shared_ptr<partita::cuda_emulation::Operation>> queue;  // the head may be running
  std::shared_ptr<partita::cuda_emulation::Operation> tail;               // the last that was enqueued, done or not
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::shared_ptr<partita::cuda_emulation::Operation> record;  // the latest
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

struct CUmemPoolHandle_st {
  int device = 0;
  bool owned = false;
};
