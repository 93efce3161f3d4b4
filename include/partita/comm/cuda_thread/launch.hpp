// SPDX-License-Identifier: Apache-2.0
// Runs a function on ranks that are threads and share one GPU.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "partita/comm/cuda_thread.hpp"
#include "partita/comm/launch.hpp"

namespace partita {

/// Runs body(comm) on `ranks` threads whose current device is `device`, with a CudaThreadComm, and returns when all
/// have ended and the device has done the work of those that did not throw; body(comm, threads) gets the communicator
/// of the threads too, for what is in the memory of the host. Errors: as launch_threads (comm/launch.hpp);
/// ArgumentError for a device that is not there; NoDeviceError, CudaError.
template <class Body>
void launch_on_device(int ranks, LaunchOptions options, Body&& body, int device = 0) {
  int devices = 0;
  detail::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (device < 0 || device >= devices) {
    throw ArgumentError("ArgumentError: launch_on_device on device " + std::to_string(device) + ", there are " +
                        std::to_string(devices));
  }
  constexpr bool takes_both = std::invocable<Body&, CudaThreadComm, ThreadComm&>;
  launch_threads(ranks, options, [&](ThreadComm& threads) {
    detail::cuda_check(cudaSetDevice(device), "cudaSetDevice");
    CudaThreadComm comm(takes_both ? *threads.subset(threads.size()) : std::move(threads));
    const std::shared_ptr<CudaTimeline> timeline = comm.timeline();
    detail::call_device_body(body, comm, threads);
    timeline->sync();
  });
}

template <class Body>
void launch_on_device(int ranks, Body&& body, int device = 0) {
  launch_on_device(ranks, LaunchOptions{}, std::forward<Body>(body), device);
}

}  // namespace partita
