// SPDX-License-Identifier: Apache-2.0
// Runs a function on ranks that are threads and share one GPU.
#pragma once

#include <string>
#include <utility>

#include "partita/comm/cuda_thread.hpp"
#include "partita/comm/launch.hpp"

namespace partita {

/// Runs body(comm) on `ranks` threads whose current device is `device`, with a CudaThreadComm&, and returns when all
/// have ended and the device has done the work of those that did not throw. Errors: as launch_threads
/// (comm/launch.hpp); ArgumentError for a device that is not there; NoDeviceError, CudaError.
template <class Body>
void launch_on_device(int ranks, LaunchOptions options, Body&& body, int device = 0) {
  int devices = 0;
  detail::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (device < 0 || device >= devices) {
    throw ArgumentError("ArgumentError: launch_on_device on device " + std::to_string(device) + ", there are " +
                        std::to_string(devices));
  }
  launch_threads(ranks, options, [&](ThreadComm host) {
    detail::cuda_check(cudaSetDevice(device), "cudaSetDevice");
    CudaThreadComm comm(std::move(host));
    const std::shared_ptr<CudaTimeline> timeline = comm.timeline();
    body(comm);
    timeline->sync();
  });
}

template <class Body>
void launch_on_device(int ranks, Body&& body, int device = 0) {
  launch_on_device(ranks, LaunchOptions{}, std::forward<Body>(body), device);
}

}  // namespace partita
