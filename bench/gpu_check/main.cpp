// SPDX-License-Identifier: Apache-2.0
// Checks products on one GPU, and measures them: gpu_check [--quick] [--largest N] [--json FILE]. Exit status: 0 where
// all is right, 1 where not, 77 without a device.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include "partita/comm/cuda_thread/launch.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "products.hpp"
#include "records.hpp"
#include "speed.hpp"

namespace {

using namespace gpu_check;

struct Options {
  bool quick = false;  // few repeats and no speed: for a memory checker
  index_t largest = 16384;
  std::string json{};
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--largest" && has_value) {
      options.largest = std::atol(argv[++i]);
    } else if (argument == "--json" && has_value) {
      options.json = argv[++i];
    } else {
      throw ArgumentError("ArgumentError: gpu_check takes --quick, --largest N and --json FILE, not " + argument);
    }
  }
  return options;
}

std::string device_name() {
  cudaDeviceProp properties{};
  detail::cuda_check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
}

void check_one_rank(int repeats, Records& records) {
  launch_devices(1, [&](NcclComm comm) {
    Context<CudaBackend, NcclComm> context(std::move(comm));
    check_products<float>(context, "nccl", "float", repeats, records);
    check_products<double>(context, "nccl", "double", repeats, records);
    check_products<bfloat16>(context, "nccl", "bfloat16", repeats, records);
  });
}

void check_shared_device(int ranks, int repeats, Records& records) {
  launch_on_device(ranks, [&](CudaThreadComm& comm) {
    Context<CudaBackend, CudaThreadComm> context(std::move(comm));
    check_products<float>(context, "shared", "float", repeats, records);
    check_products<double>(context, "shared", "double", repeats, records);
    check_products<bfloat16>(context, "shared", "bfloat16", repeats, records);
  });
}

void measure(index_t largest, Records& records) {
  launch_devices(1, [&](NcclComm comm) {
    Context<CudaBackend, NcclComm> context(std::move(comm));
    const auto alone = [] {};
    for (index_t n = std::min<index_t>(1024, largest); n <= largest; n *= 2) {
      measure_product<float, Replicated<>>(context, {1}, n, "matmul, float", alone, records);
      measure_product<bfloat16, Replicated<>>(context, {1}, n, "matmul, bfloat16", alone, records);
    }
  });
  const index_t n = std::min<index_t>(8192, largest);
  launch_on_device(4, [&](CudaThreadComm& comm) {
    Context<CudaBackend, CudaThreadComm> context(std::move(comm));
    const auto meet = [&] { context.comm().barrier(); };
    measure_product<float, Summa2D<>>(context, {2, 2}, n, "Summa2D<2, 2> on one device, float", meet, records);
    measure_product<bfloat16, Summa2D<>>(context, {2, 2}, n, "Summa2D<2, 2> on one device, bfloat16", meet, records);
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const std::string device = device_name();
    std::cout << "device    " << device << std::endl;
    Records records;
    const int repeats = options.quick ? 2 : 20;
    check_one_rank(repeats, records);
    for (const int ranks : {4, 8}) check_shared_device(ranks, repeats, records);
    if (!options.quick) measure(options.largest, records);
    if (!options.json.empty() && !records.write_json(options.json, device)) {
      std::cerr << "gpu_check: " << options.json << " cannot be written" << std::endl;
      return 1;
    }
    std::cout << (records.all_right() ? "all right" : "NOT all right") << std::endl;
    return records.all_right() ? 0 : 1;
  } catch (const partita::NoDeviceError& error) {
    std::cerr << "gpu_check: SKIPPED, " << error.what() << std::endl;
    return 77;
  } catch (const std::exception& error) {
    std::cerr << "gpu_check: " << error.what() << std::endl;
    return 1;
  }
}
