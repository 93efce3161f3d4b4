// SPDX-License-Identifier: Apache-2.0
// How every emulated call begins and ends: counted, made to fail where a test asks for it, one at a time.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "cuda_emulation/machine.hpp"

namespace partita::cuda_emulation {

template <class Result>
struct LibraryOf;
/// (ncclResult_t: nccl_comm.hpp)
template <>
struct LibraryOf<cudaError_t> {
  static constexpr Library library = Library::cuda;
  static constexpr cudaError_t in_host_function = cudaErrorNotPermitted;
  static constexpr cudaError_t given_up = cudaErrorLaunchTimeout;
};
template <>
struct LibraryOf<cublasStatus_t> {
  static constexpr Library library = Library::cublas;
  static constexpr cublasStatus_t in_host_function = CUBLAS_STATUS_EXECUTION_FAILED;
  static constexpr cublasStatus_t given_up = CUBLAS_STATUS_EXECUTION_FAILED;
};

/// The error that cudaGetLastError returns and forgets.
cudaError_t& last_error();
inline cudaError_t remembered(cudaError_t result) {
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error() = result;
  return result;
}
template <class Result>
Result remembered(Result result) {
  return result;
}

/// Frees and destroys release even where they are made to fail, so that what leaks is not the stand-ins' doing.
enum class Kind { ordinary, query, release };

/// `body(machine, lock)` under the lock, unless the call is made to fail.
template <class Result, class Body>
Result enter(const char* function, Kind kind, Body body) {
  Machine& m = machine();
  Lock lock(m.mutex);
  if (in_host_function()) {
    m.report(Finding::misuse, std::string(function) + " in a function of cudaLaunchHostFunc");
    return LibraryOf<Result>::in_host_function;
  }
  if (kind != Kind::query) ++m.progress;
  const std::optional<int> fault = m.faults.enter(LibraryOf<Result>::library, function, current_device());
  if (fault && kind != Kind::release) return remembered(static_cast<Result>(*fault));
  const Result result = body(m, lock);
  if (kind == Kind::ordinary) m.rest(lock);
  if (fault) return remembered(static_cast<Result>(*fault));
  if (m.broken && kind != Kind::release) return remembered(LibraryOf<Result>::given_up);
  return remembered(result);
}
template <class Result, class Body>
Result enter(const char* function, Body body) {
  return enter<Result>(function, Kind::ordinary, body);
}

}  // namespace partita::cuda_emulation
