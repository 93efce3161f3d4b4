// SPDX-License-Identifier: Apache-2.0
// The main function of tests that need a CUDA device: without one they are skipped, visibly.
#include <cuda_runtime_api.h>

#include <cstdio>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device (%s)\n", cudaGetErrorString(result));
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
