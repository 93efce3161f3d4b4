// SPDX-License-Identifier: Apache-2.0
// CudaBackend on the stand-ins: the laws of a backend, the order of its stream, and calls that fail.
#include "partita/backend/cuda.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "laws/backend_laws.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;

CudaOptions small() {
  CudaOptions options;
  options.workspace_bytes = 4096;
  return options;
}

/// A host view's elements on the device, with the same leading dimension.
template <class T>
struct Mirror {
  Mirror(CudaBackend& backend, View<const T> host)
      : memory(static_cast<std::size_t>(host.empty() ? 0 : host.rows * host.ld) * sizeof(T), backend.stream()),
        view(static_cast<T*>(memory.data()), host.rows, host.cols, host.ld) {
    backend.copy<T>(host, view);
  }
  CudaMemory memory;
  View<T> view;
};

/// A backend for host views, so that the laws run: every operand goes to the device, and the result comes back.
class MirroredBackend {
 public:
  explicit MirroredBackend(CudaBackend& backend) : backend_(backend) {}

  template <MatmulScalar T>
  void gemm(accumulate_t<T> alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<accumulate_t<T>> out) {
    const Mirror<T> left(backend_, a.stored);
    const Mirror<T> right(backend_, b.stored);
    const Mirror<accumulate_t<T>> result(backend_, out);
    backend_.gemm<T>(alpha, {left.view, a.transposed, a.conjugated}, {right.view, b.transposed, b.conjugated},
                     result.view);
    backend_.copy<accumulate_t<T>>(result.view, out);
  }
  template <class T>
  void copy(View<const T> in, View<T> out) {
    const Mirror<T> from(backend_, in);
    const Mirror<T> to(backend_, out);
    backend_.copy<T>(from.view, to.view);
    backend_.copy<T>(to.view, out);
  }
  template <MatmulScalar T>
  void scale(accumulate_t<T> beta, View<T> out) {
    const Mirror<T> result(backend_, out);
    backend_.scale<T>(beta, result.view);
    backend_.copy<T>(result.view, out);
  }
  template <MatmulScalar T>
  void combine(accumulate_t<T> beta, View<const accumulate_t<T>> in, View<T> out) {
    const Mirror<accumulate_t<T>> from(backend_, in);
    const Mirror<T> result(backend_, out);
    backend_.combine<T>(beta, from.view, result.view);
    backend_.copy<T>(result.view, out);
  }
  void sync() { backend_.sync(); }

 private:
  CudaBackend& backend_;
};

template <class... T>
void check_all(CudaBackend& backend) {
  MirroredBackend mirrored(backend);
  (laws::check_backend<T>(mirrored), ...);
}

TEST_CASE("CudaBackend obeys the laws of a backend") {
  for (const Progress progress : cuda_emulation::all_progress) {
    const Fresh fresh(cuda_emulation::with(progress, 1));
    CudaBackend backend(small());
    check_all<float, double, std::complex<float>, std::complex<double>, half, bfloat16>(backend);
    backend.sync();
  }
}

TEST_CASE("A backend that is moved keeps its stream; nothing is left of it") {
  const Fresh fresh;
  CudaBackend first(small());
  CudaBackend second = std::move(first);
  MirroredBackend mirrored(second);
  laws::check_gemm<float>(mirrored, 3, 4, 5);
  second.sync();
}

TEST_CASE("Products run behind the host's back, and one stream orders them") {
  const Fresh fresh(cuda_emulation::with(Progress::latest));
  CudaBackend backend(small());
  const std::vector<float> ones(16, 1.0F);
  const View<const float> host(ones.data(), 4, 4, 4);
  const Mirror<float> a(backend, host);
  const Mirror<float> c(backend, host);
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
    const Fresh fresh;
    CudaOptions options = small();
    options.tf32 = tf32;
    CudaBackend backend(options);
    const float x = 1 + 0x1p-20F;
    const float zero = 0;
    const float one = 1;
    const Mirror<float> a(backend, View<const float>(&x, 1, 1, 1));
    const Mirror<float> b(backend, View<const float>(&one, 1, 1, 1));
    const Mirror<float> c(backend, View<const float>(&zero, 1, 1, 1));
    backend.gemm<float>(1.0F, {a.view}, {b.view}, c.view);
    float result = 0;
    backend.copy<float>(c.view, View<float>(&result, 1, 1, 1));
    CHECK(result == (tf32 ? 1.0F : x));
  }
}

/// act(a·b + bias) for integers, whose sums are exact.
template <class T>
void check_linear(CudaBackend& backend, index_t m, index_t n, index_t k, bool a_transposed, bool expected_done) {
  const Shape shape_a = a_transposed ? Shape{k, m} : Shape{m, k};
  laws::GappedMatrix<T> a(shape_a, 0, 1);
  laws::GappedMatrix<T> b(Shape{k, n}, 0, 2);
  laws::GappedMatrix<T> bias(Shape{1, n}, 0, 3);
  for (const auto activation : {LinearActivation::none, LinearActivation::relu, LinearActivation::gelu_tanh}) {
    laws::GappedMatrix<T> out(Shape{m, n}, 0, 4);
    const Mirror<T> da(backend, a.view);
    const Mirror<T> db(backend, b.view);
    const Mirror<T> dbias(backend, bias.view);
    const Mirror<T> dout(backend, out.view);
    const MatrixOperand<T> left{da.view, a_transposed};
    const bool done = backend.linear<T>(accumulate_t<T>(1), left, {db.view}, dbias.view, activation, dout.view);
    REQUIRE(done == expected_done);
    if (!done) continue;
    backend.copy<T>(dout.view, out.view);
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) {
        double x = static_cast<double>(static_cast<accumulate_t<T>>(bias.view(0, j)));
        for (index_t l = 0; l < k; ++l) {
          x += static_cast<double>(laws::read<T>({a.view, a_transposed}, i, l)) *
               static_cast<double>(laws::read<T>({b.view}, l, j));
        }
        if (activation == LinearActivation::relu) x = std::max(x, 0.0);
        if (activation == LinearActivation::gelu_tanh) {
          x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
        }
        const double result = static_cast<double>(static_cast<accumulate_t<T>>(out.view(i, j)));
        REQUIRE(result == doctest::Approx(x).epsilon(is_storage_only_v<T> ? 0.01 : 1e-6));
      }
    }
  }
}

TEST_CASE("Product, bias and activation in one pass; where cublasLt has none, nothing happens") {
  const Fresh fresh;
  CudaBackend backend(small());
  check_linear<float>(backend, 5, 3, 4, false, true);
  check_linear<float>(backend, 5, 3, 4, true, true);
  check_linear<double>(backend, 2, 7, 3, false, true);
  check_linear<half>(backend, 8, 16, 24, false, true);
  check_linear<bfloat16>(backend, 16, 8, 8, true, true);
  check_linear<bfloat16>(backend, 8, 7, 8, false, false);  // rows of 14 bytes
  backend.sync();
}

TEST_CASE("Every call of CUDA and cuBLAS, made to fail, is a typed error and leaves nothing behind") {
  const auto program = [] {
    CudaBackend backend(small());
    const std::vector<std::complex<float>> values(6, 1.0F);
    const View<const std::complex<float>> host(values.data(), 2, 3, 3);
    const Mirror<std::complex<float>> a(backend, host);
    const Mirror<std::complex<float>> c(backend, View<const std::complex<float>>(values.data(), 2, 2, 2));
    backend.gemm<std::complex<float>>(1.0F, {a.view, false, true}, {a.view, true, false}, c.view);
    backend.scale<std::complex<float>>(2.0F, c.view);
    backend.scale<std::complex<float>>(0.0F, c.view);
    backend.sync();
  };
  using cuda_emulation::Library;
  cuda_emulation::Counters calls;
  {
    const Fresh fresh;
    program();
    calls = cuda_emulation::counters();
  }
  const auto check = [&](Library library, std::int64_t count, int code) {
    for (std::int64_t n = 1; n <= count; ++n) {
      CAPTURE(n);
      const Fresh fresh;
      cuda_emulation::fail_call({library, n, code, "", cuda_emulation::any_device, false});
      bool thrown = false;
      try {
        program();
      } catch (const Error&) {
        thrown = true;
      }
      // What fails in a destructor is not told. And a wait asks the stream once more or less, so that there may be
      // fewer calls than were counted.
      const std::int64_t faults = cuda_emulation::counters().faults;
      CHECK((thrown ? faults == 1 : faults <= 1));
    }
  };
  check(Library::cuda, calls.cuda, cudaErrorLaunchFailure);
  check(Library::cublas, calls.cublas, CUBLAS_STATUS_EXECUTION_FAILED);
}

TEST_CASE("Without a device there is an error that says so") {
  cuda_emulation::Options options;
  options.devices = 0;
  const Fresh fresh(options);
  CHECK_THROWS_AS(CudaBackend{small()}, NoDeviceError);
}

}  // namespace
}  // namespace partita
