// SPDX-License-Identifier: Apache-2.0
// What the tests of NCCL's stand-ins have in common.
#pragma once

#include <nccl.h>

#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {

inline void ok(ncclResult_t result) {
  CAPTURE(ncclGetErrorString(result));
  REQUIRE(result == ncclSuccess);
}

inline ncclUniqueId unique_id() {
  ncclUniqueId id;
  ok(ncclGetUniqueId(&id));
  return id;
}

/// A rank's communicator; aborted where nobody has destroyed it.
struct Comm {
  ncclComm_t handle = nullptr;
  Comm() = default;
  Comm(int ranks, const ncclUniqueId& id, int rank) { ok(ncclCommInitRank(&handle, ranks, id, rank)); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm() {
    if (handle != nullptr) ncclCommAbort(handle);
  }
  operator ncclComm_t() const { return handle; }  // NOLINT
  void destroy() {
    ok(ncclCommDestroy(handle));
    handle = nullptr;
  }
  void abort() {
    ok(ncclCommAbort(handle));
    handle = nullptr;
  }
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t error = ncclSuccess;
    ok(ncclCommGetAsyncError(handle, &error));
    return error;
  }
  /// Polls until the communicator is no longer in progress.
  [[nodiscard]] ncclResult_t settled() const {
    while (state() == ncclInProgress) std::this_thread::yield();
    return state();
  }
};

/// `count` numbers that tell the rank.
inline std::vector<float> numbers(std::size_t count, int rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int>(i) + 100 * (rank + 1));
  return values;
}

}  // namespace partita::cuda_emulation
