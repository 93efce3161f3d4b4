// SPDX-License-Identifier: Apache-2.0
// CudaBackend where a device would not tell: the order of its stream, calls that fail, and no device.
#include "partita/backend/cuda.hpp"

#include <doctest/doctest.h>

#include <complex>
#include <vector>

#include "unit/cuda/mirror.hpp"
#include "unit/cuda/support.hpp"

namespace partita {
namespace {

TEST_CASE("Products run behind the host's back, and one stream orders them") {
  const cuda_emulation::Fresh fresh(cuda_emulation::with(cuda_emulation::Progress::latest));
  CudaBackend backend(test::small_backend());
  const std::vector<float> ones(16, 1.0F);
  const View<const float> host(ones.data(), 4, 4, 4);
  const test::Mirror<float> a(backend, host);
  const test::Mirror<float> c(backend, host);
  backend.gemm<float>(1.0F, {a.view}, {a.view}, c.view);
  backend.gemm<float>(1.0F, {a.view}, {a.view}, c.view);
  CHECK(cudaStreamQuery(backend.stream()) == cudaErrorNotReady);
  backend.sync();
  std::vector<float> result(16);
  backend.copy<float>(c.view, View<float>(result.data(), 4, 4, 4));
  CHECK(result == std::vector<float>(16, 9.0F));
}

TEST_CASE("TF32 only where it is asked for") {
  for (const bool tf32 : {false, true}) {
    const cuda_emulation::Fresh fresh;
    CudaOptions options = test::small_backend();
    options.tf32 = tf32;
    CudaBackend backend(options);
    const float x = 1 + 0x1p-20F;
    const float zero = 0;
    const float one = 1;
    const test::Mirror<float> a(backend, View<const float>(&x, 1, 1, 1));
    const test::Mirror<float> b(backend, View<const float>(&one, 1, 1, 1));
    const test::Mirror<float> c(backend, View<const float>(&zero, 1, 1, 1));
    backend.gemm<float>(1.0F, {a.view}, {b.view}, c.view);
    float result = 0;
    backend.copy<float>(c.view, View<float>(&result, 1, 1, 1));
    CHECK(result == (tf32 ? 1.0F : x));
  }
}

TEST_CASE("Every call of CUDA and cuBLAS, made to fail, is a typed error and leaves nothing behind") {
  const auto program = [] {
    CudaBackend backend(test::small_backend());
    const std::vector<std::complex<float>> values(6, 1.0F);
    const View<const std::complex<float>> host(values.data(), 2, 3, 3);
    const test::Mirror<std::complex<float>> a(backend, host);
    const test::Mirror<std::complex<float>> c(backend, View<const std::complex<float>>(values.data(), 2, 2, 2));
    backend.gemm<std::complex<float>>(1.0F, {a.view, false, true}, {a.view, true, false}, c.view);
    backend.scale<std::complex<float>>(2.0F, c.view);
    backend.scale<std::complex<float>>(0.0F, c.view);
    backend.sync();
  };
  using cuda_emulation::Library;
  // Where the host goes on only when nothing can run, a wait is one query or few, and calls can be counted.
  const auto options = cuda_emulation::with(cuda_emulation::Progress::earliest);
  cuda_emulation::Counters calls;
  {
    const cuda_emulation::Fresh fresh(options);
    program();
    calls = cuda_emulation::counters();
  }
  const auto check = [&](Library library, std::int64_t count, int code) {
    for (std::int64_t n = 1; n <= count; ++n) {
      CAPTURE(n);
      const cuda_emulation::Fresh fresh(options);
      cuda_emulation::fail_call({library, n, code, "", cuda_emulation::any_device, false});
      bool thrown = false;
      try {
        program();
      } catch (const Error&) {
        thrown = true;
      }
      // What fails in a destructor is not told, but is not lost either. A wait of this run may have needed fewer
      // queries.
      const cuda_emulation::Counters made = cuda_emulation::counters();
      const bool made_it = (library == Library::cuda ? made.cuda : made.cublas) >= n;
      CHECK(made.faults == (made_it ? 1 : 0));
      if (!thrown) CHECK(cuda_emulation::live().total() == 0);
      if (!made_it) CHECK_FALSE(thrown);
    }
  };
  check(Library::cuda, calls.cuda, cudaErrorLaunchFailure);
  check(Library::cublas, calls.cublas, CUBLAS_STATUS_EXECUTION_FAILED);
}

TEST_CASE("Without a device there is an error that says so") {
  cuda_emulation::Options options;
  options.devices = 0;
  const cuda_emulation::Fresh fresh(options);
  CHECK_THROWS_AS(CudaBackend{test::small_backend()}, NoDeviceError);
}

}  // namespace
}  // namespace partita
