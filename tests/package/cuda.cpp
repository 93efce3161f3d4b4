// SPDX-License-Identifier: Apache-2.0
// A stranger's program with the component cuda: it runs a layer's body where there is a device.

#include <cstdio>
#include <vector>

#include "partita/backend/cuda.hpp"
#include "partita/nn/kernel/elementwise.hpp"

int main() {
  using partita::bfloat16;
  try {
    partita::CudaBackend backend;
    std::vector<bfloat16> host(6, bfloat16(1.5F));
    const partita::View<bfloat16> here(host.data(), 2, 3, 3);
    const partita::CudaMemory memory(host.size() * sizeof(bfloat16), backend.stream());
    const partita::View<bfloat16> there(static_cast<bfloat16*>(memory.data()), 2, 3, 3);
    backend.copy<bfloat16>(here, there);
    backend.for_each_index(2, partita::kernel::Add<bfloat16>{there, there, there});
    backend.scale<bfloat16>(2.0F, there);
    backend.copy<bfloat16>(there, here);
    backend.sync();
    const bool right = host == std::vector<bfloat16>(6, bfloat16(6.0F));
    std::puts(right ? "right" : "wrong");
    return right ? 0 : 1;
  } catch (const partita::NoDeviceError& error) {
    std::puts(error.what());
    return 0;
  }
}
