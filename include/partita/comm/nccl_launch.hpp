// SPDX-License-Identifier: Apache-2.0
// Runs a function on ranks that are threads of this process, each with a device of its own. An opt-in include, as
// comm/nccl.hpp is.
#pragma once

#include <string>
#include <utility>

#include "partita/comm/launch.hpp"
#include "partita/comm/nccl.hpp"

namespace partita {

/// Runs body(comm) on `ranks` threads, rank r on device r, and returns when all have ended: launch_threads (see
/// comm/launch.hpp) with an NcclComm; body(comm, threads) gets the communicator of the threads too, for what is in the
/// memory of the host. A rank that throws frees its peers, which leave their waits with PeerFailed, and
/// its error is thrown. Throws NoDeviceError without a device, ArgumentError for more ranks than devices.
template <class Body>
void launch_devices(int ranks, LaunchOptions options, Body&& body) {
  const int devices = cuda_device_count();
  if (ranks > devices) {
    throw ArgumentError("ArgumentError: launch_devices with " + std::to_string(ranks) + " ranks, NCCL needs a device " +
                        "for each and there are " + std::to_string(devices) +
                        "; CudaThreadComm (comm/cuda_thread.hpp, launch_on_device) runs several ranks on one device");
  }
  const ncclUniqueId id = nccl_unique_id();
  launch_threads(ranks, options, [&](ThreadComm& threads) {
    use_cuda_device(threads.rank());
    NcclOptions nccl;
    nccl.deadline = options.deadline;
    nccl.listen = [&threads] { threads.drain(); };  // lends nothing, so it only throws after a failure
    nccl.tell = [&threads](const std::string& reason) { threads.abort(reason); };
    NcclComm comm(id, threads.size(), threads.rank(), nccl);
    detail::call_device_body(body, comm, threads);
  });
}
template <class Body>
void launch_devices(int ranks, Body&& body) {
  launch_devices(ranks, LaunchOptions{}, std::forward<Body>(body));
}

}  // namespace partita
