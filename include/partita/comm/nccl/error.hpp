// SPDX-License-Identifier: Apache-2.0
// What NCCL reports, as an exception.
#pragma once

#include <nccl.h>

#include <string>

#include "partita/cuda/error.hpp"

namespace partita {

/// A call of NCCL that failed, at once or later; `code` is its ncclResult_t.
struct NcclError : Error {
  NcclError(ncclResult_t returned, const std::string& text) : Error("NcclError: " + text), code(returned) {}

  ncclResult_t code;
};

namespace detail {

[[nodiscard]] inline std::string nccl_text(ncclResult_t result, const char* call) {
  std::string text = std::string(call) + ": " + ncclGetErrorString(result);
  const char* const detail = ncclGetLastError(nullptr);
  if (detail != nullptr && *detail != '\0') text += std::string(" (") + detail + ")";
  return text;
}

/// Work that is still in progress is no error.
inline void nccl_check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess && result != ncclInProgress) throw NcclError(result, nccl_text(result, call));
}

}  // namespace detail

/// What the ranks of a new communicator need to find each other: made by one of them, told to all.
/// Throws NcclError.
[[nodiscard]] inline ncclUniqueId nccl_unique_id() {
  ncclUniqueId id{};
  detail::nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

}  // namespace partita
