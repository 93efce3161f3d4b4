// SPDX-License-Identifier: Apache-2.0
// Products of the stand-ins against a plain reference: all types, transposes, leading dimensions and epilogues.
#include "cuda_emulation/gemm.hpp"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <complex>
#include <cstring>

#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

void ok(cublasStatus_t status) { REQUIRE(status == CUBLAS_STATUS_SUCCESS); }

template <class T>
struct Type;
template <>
struct Type<float> {
  using Scale = float;
  static constexpr cudaDataType value = CUDA_R_32F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
template <>
struct Type<double> {
  using Scale = double;
  static constexpr cudaDataType value = CUDA_R_64F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_64F;
};
template <>
struct Type<std::complex<float>> {
  using Scale = std::complex<float>;
  static constexpr cudaDataType value = CUDA_C_32F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
template <>
struct Type<std::complex<double>> {
  using Scale = std::complex<double>;
  static constexpr cudaDataType value = CUDA_C_64F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_64F;
};
template <>
struct Type<__half> {
  using Scale = float;
  static constexpr cudaDataType value = CUDA_R_16F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
template <>
struct Type<__nv_bfloat16> {
  using Scale = float;
  static constexpr cudaDataType value = CUDA_R_16BF;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

using Wide = std::complex<double>;
template <class T>
Wide wide(T x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(x);
  } else {
    return Wide(x);
  }
}
template <class T>
T narrow(Wide z) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half(static_cast<float>(z.real()));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16(static_cast<float>(z.real()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(z.real());
  } else {
    return T(z);
  }
}
template <class T>
constexpr bool complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// Small integers, so that every sum is exact in every type.
template <class T>
std::vector<T> integers(std::size_t count, int seed) {
  std::vector<T> values(count);
  auto state = static_cast<unsigned>(seed);
  for (T& x : values) {
    state = (state * 1103515U + 12345U) & 0x7fffffU;
    const int real = static_cast<int>(state / 7 % 5) - 2;
    const int imag = static_cast<int>(state / 101 % 3) - 1;
    x = narrow<T>(complex<T> ? Wide(real, imag) : Wide(real));
  }
  return values;
}

struct Shape {
  int m, n, k;
};

/// op(A)[i, j] of a stored column-major matrix.
template <class T>
Wide element(const std::vector<T>& a, int ld, cublasOperation_t op, int i, int j) {
  const int at = op == CUBLAS_OP_N ? i + j * ld : j + i * ld;
  const Wide x = wide(a[static_cast<std::size_t>(at)]);
  return op == CUBLAS_OP_C ? std::conj(x) : x;
}

template <class T, class Out>
void check_gemm(cublasHandle_t handle, Shape s, cublasOperation_t op_a, cublasOperation_t op_b, Wide alpha, Wide beta) {
  const int lda = (op_a == CUBLAS_OP_N ? s.m : s.k) + 2;
  const int ldb = (op_b == CUBLAS_OP_N ? s.k : s.n) + 1;
  const int ldc = s.m + 3;
  const auto size = [](int ld, int cols) { return static_cast<std::size_t>(ld * cols); };
  const auto a = integers<T>(size(lda, op_a == CUBLAS_OP_N ? s.k : s.m), 3);
  const auto b = integers<T>(size(ldb, op_b == CUBLAS_OP_N ? s.n : s.k), 7);
  auto expected = integers<Out>(size(ldc, s.n), 11);
  const Array<T> da(a);
  const Array<T> db(b);
  const Array<Out> dc(expected);
  const auto factor_a = narrow<typename Type<T>::Scale>(alpha);
  const auto factor_b = narrow<typename Type<T>::Scale>(beta);
  ok(cublasGemmEx(handle, op_a, op_b, s.m, s.n, s.k, &factor_a, da.data, Type<T>::value, lda, db.data, Type<T>::value,
                  ldb, &factor_b, dc.data, Type<Out>::value, ldc, Type<T>::compute, CUBLAS_GEMM_DEFAULT));
  for (int j = 0; j < s.n; ++j) {
    for (int i = 0; i < s.m; ++i) {
      Wide sum = 0;
      for (int p = 0; p < s.k; ++p) sum += element(a, lda, op_a, i, p) * element(b, ldb, op_b, p, j);
      Out& c = expected[static_cast<std::size_t>(i + j * ldc)];
      c = narrow<Out>(alpha * sum + beta * wide(c));
    }
  }
  const auto result = dc.host();  // with what lies between the columns
  REQUIRE(std::memcmp(result.data(), expected.data(), result.size() * sizeof(Out)) == 0);
}

template <class T, class Out = T>
void check_type(cublasHandle_t handle) {
  const cublasOperation_t ops[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};
  for (const Shape s : {Shape{1, 1, 1}, {3, 4, 5}, {7, 2, 9}, {4, 3, 0}}) {
    for (const cublasOperation_t op_a : ops) {
      for (const cublasOperation_t op_b : ops) check_gemm<T, Out>(handle, s, op_a, op_b, 1.0, 0.0);
    }
    check_gemm<T, Out>(handle, s, CUBLAS_OP_N, CUBLAS_OP_N, 2.0, -1.0);
  }
}

struct Handle {
  cublasHandle_t handle = nullptr;
  Handle() { ok(cublasCreate(&handle)); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { cublasDestroy(handle); }
  operator cublasHandle_t() const { return handle; }  // NOLINT
};

TEST_CASE("cublasGemmEx multiplies every type, exactly where sums are exact") {
  const Fresh fresh;
  const Handle handle;
  check_type<float>(handle);
  check_type<double>(handle);
  check_type<std::complex<float>>(handle);
  check_type<std::complex<double>>(handle);
  check_type<__half>(handle);
  check_type<__half, float>(handle);
  check_type<__nv_bfloat16>(handle);
  check_type<__nv_bfloat16, float>(handle);
}

TEST_CASE("16-bit products add in fp32 and round once") {
  const Fresh fresh;
  const Handle handle;
  const std::vector<__half> ones(4097, __float2half(1));
  const Array<__half> a(ones);
  const Array<__half> b(ones);
  const Array<float> c(1);
  const float one = 1;
  const float zero = 0;
  ok(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 4097, &one, a.data, CUDA_R_16F, 4097, b.data, CUDA_R_16F,
                  4097, &zero, c.data, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  CHECK(c.host()[0] == 4097);  // fp16 would stop at 2048
}

TEST_CASE("TF32 rounds operands, and only where it is asked for") {
  const Fresh fresh;
  const Handle handle;
  const Array<float> a(std::vector<float>{1 + 0x1p-20F});
  const Array<float> b(std::vector<float>{1});
  const Array<float> c(1);
  const float one = 1;
  const float zero = 0;
  const auto product = [&](cublasComputeType_t compute) {
    ok(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a.data, CUDA_R_32F, 1, b.data, CUDA_R_32F, 1,
                    &zero, c.data, CUDA_R_32F, 1, compute, CUBLAS_GEMM_DEFAULT));
    return c.host()[0];
  };
  CHECK(product(CUBLAS_COMPUTE_32F) == 1 + 0x1p-20F);
  CHECK(product(CUBLAS_COMPUTE_32F_FAST_TF32) == 1);
  ok(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
  CHECK(product(CUBLAS_COMPUTE_32F) == 1);
}

TEST_CASE("C is not read where beta is 0; alpha 0 hides no NaN") {
  const Fresh fresh;
  const Handle handle;
  const Array<float> a(std::vector<float>{2});
  const Array<float> b(std::vector<float>{3});
  const Array<float> c(1);  // NaN
  const float zero = 0;
  const float one = 1;
  const auto product = [&](const float* x, const Array<float>& right) {
    ok(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, x, a.data, CUDA_R_32F, 1, right.data, CUDA_R_32F, 1,
                    &zero, c.data, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return c.host()[0];
  };
  CHECK(product(&one, b) == 6);
  const Array<float> unset(1);
  CHECK(std::isnan(product(&zero, unset)));
}

TEST_CASE("Batches are strided") {
  const Fresh fresh;
  const Handle handle;
  const auto a = integers<double>(12, 1);
  const auto b = integers<double>(12, 2);
  const Array<double> da(a);
  const Array<double> db(b);
  const Array<double> dc(8);
  const double one = 1;
  const double zero = 0;
  ok(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, da.data, CUDA_R_64F, 2, 6, db.data,
                                CUDA_R_64F, 3, 6, &zero, dc.data, CUDA_R_64F, 2, 4, 2, CUBLAS_COMPUTE_64F,
                                CUBLAS_GEMM_DEFAULT));
  const auto c = dc.host();
  for (std::size_t batch = 0; batch < 2; ++batch) {
    for (std::size_t i = 0; i < 4; ++i) {
      double sum = 0;
      for (std::size_t p = 0; p < 3; ++p) sum += a[6 * batch + i % 2 + 2 * p] * b[6 * batch + p + 3 * (i / 2)];
      CHECK(c[4 * batch + i] == sum);
    }
  }
}

TEST_CASE("geam adds and transposes, in place where nothing moves") {
  const Fresh fresh;
  const Handle handle;
  const std::vector<float> a{1, 2, 3, 4, 5, 6};          // 2 × 3
  const std::vector<float> b{10, 20, 30, 40, 50, 60};    // 3 × 2, read transposed
  const std::vector<float> sum{11, 42, 23, 54, 35, 66};  // a + bᵀ
  const Array<float> da(a);
  const Array<float> db(b);
  const float one = 1;
  const float zero = 0;
  ok(cublasSgeam(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 3, &one, da.data, 2, &one, db.data, 3, da.data, 2));
  CHECK(da.host() == sum);
  const Array<float> unset(6);
  ok(cublasSgeam(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 3, &one, da.data, 2, &zero, unset.data, 2, unset.data, 2));
  CHECK(unset.host() == sum);
  CHECK(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 3, &one, db.data, 3, &zero, db.data, 2, db.data, 2) ==
        CUBLAS_STATUS_INVALID_VALUE);
  found(Finding::misuse, {"cublasSgeam", "overlaps"});
}

TEST_CASE("A product is refused where its operands are wrong, and not where they are right") {
  const Fresh fresh;
  const Handle handle;
  const Array<float> a(16, "a");
  const Array<float> b(16, "b");
  const Array<float> c(16, "c");
  const float one = 1;
  const float zero = 0;
  const auto product = [&](const void* right, int ldb, cudaDataType type, const void* out) {
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a.data, CUDA_R_32F, 4, right, type, ldb, &zero,
                        const_cast<void*>(out), CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  ok(product(b.data, 4, CUDA_R_32F, c.data));
  found_nothing();
  CHECK(product(b.data, 3, CUDA_R_32F, c.data) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product(b.data, 4, CUDA_R_64F, c.data) == CUBLAS_STATUS_NOT_SUPPORTED);
  found_nothing();
  CHECK(product(b.data, 5, CUDA_R_32F, c.data) != CUBLAS_STATUS_SUCCESS);
  found(Finding::bounds, {"cublasGemmEx", "'b'"});
  CHECK(product(b.data, 4, CUDA_R_32F, b.data) != CUBLAS_STATUS_SUCCESS);
  found(Finding::misuse, {"overlaps"});
  const std::vector<float> host(16);
  CHECK(product(host.data(), 4, CUDA_R_32F, c.data) != CUBLAS_STATUS_SUCCESS);
  found(Finding::misuse, {"not page-locked"});
  cudaSetDevice(1);
  CHECK(product(b.data, 4, CUDA_R_32F, c.data) != CUBLAS_STATUS_SUCCESS);
  found(Finding::wrong_device, {"cublasGemmEx", "handle of device 0", "device 1 is current"});
  cudaSetDevice(0);
}

TEST_CASE("A workspace that two streams share is a race, one for each is none") {
  for (const bool shared : {true, false}) {
    CAPTURE(shared);
    const Fresh fresh(racing());
    const Array<float> a(std::vector<float>(4, 1.0F));
    const Array<float> c(4);
    const Array<float> d(4);
    const Array<char> first(1024, "workspace");
    const Array<char> second(1024);
    const Stream s("s");
    const Stream t("t");
    const float one = 1;
    const float zero = 0;
    const auto product = [&](const Handle& handle, cudaStream_t stream, const Array<char>& workspace, float* out) {
      ok(cublasSetStream(handle, stream));
      ok(cublasSetWorkspace(handle, workspace.data, workspace.count));
      ok(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a.data, CUDA_R_32F, 2, a.data, CUDA_R_32F, 2,
                      &zero, out, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    };
    const Handle one_handle;
    const Handle other_handle;
    product(one_handle, s, first, c.data);
    product(other_handle, t, shared ? first : second, d.data);
    if (shared) {
      found(Finding::race, {"'workspace'", "cublasGemmEx on stream 's'", "cublasGemmEx on stream 't'"});
    }
  }
}

}  // namespace
}  // namespace partita::cuda_emulation
