// SPDX-License-Identifier: Apache-2.0
// One layer's forward product in 2.5 dimensions on 8 GPUs. Started alone, the ranks are threads of this process;
// started by torchrun, which tells each process its rank in the environment, they are processes:
//
//     gpu_summa25d
//     torchrun --no-python --nproc-per-node 8 gpu_summa25d
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "partita/backend/cuda.hpp"
#include "partita/comm/nccl_environment.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "partita/partita.hpp"

using namespace partita;
using Activations = Summa25D<2, 2>;
using Weights = Summa25DWeight<2, 2>;

void multiply(NcclComm comm) {
  Context<CudaBackend, NcclComm> context(std::move(comm));
  const auto grid = make_grid<Activations>(context);
  const auto x = from_function<float, Activations>(grid, {256, 192}, [](index_t i, index_t j) { return (i + j) % 5; });
  const auto w = from_function<float, Weights>(grid, {192, 128}, [](index_t i, index_t j) { return (i * j) % 3; });
  const auto y = matmul(x, w);  // on the devices, ordered on the context's streams

  const Matrix<float> whole = gather(y);  // on the host of every rank
  if (context.rank() == 0) std::printf("y[255, 127] = %.0f\n", static_cast<double>(whole(255, 127)));
}

int main() {
  try {
    if (std::getenv("LOCAL_RANK") != nullptr) {
      multiply(nccl_from_environment());
    } else {
      launch_devices(8, multiply);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
