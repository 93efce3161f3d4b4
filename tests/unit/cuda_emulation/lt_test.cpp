// SPDX-License-Identifier: Apache-2.0
// cublasLt of the stand-ins: the heuristic's promise, bias and GELU.
#include "cuda_emulation/cublas_lt.hpp"

#include <cuda_fp16.h>

#include <cmath>

#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

void ok(cublasStatus_t status) { REQUIRE(status == CUBLAS_STATUS_SUCCESS); }

/// D[m, n] = epilogue(A[m, k] · B[k, n]), column-major, with everything that such a call needs.
struct LtCall {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

  LtCall(cudaDataType type, std::uint64_t m, std::uint64_t n, std::uint64_t k, std::int64_t lda, std::int64_t ldb,
         std::int64_t ldd) {
    ok(cublasLtCreate(&handle));
    ok(cublasLtMatmulDescCreate(&product, type == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F));
    ok(cublasLtMatrixLayoutCreate(&a, type, m, k, lda));
    ok(cublasLtMatrixLayoutCreate(&b, type, k, n, ldb));
    ok(cublasLtMatrixLayoutCreate(&d, type, m, n, ldd));
    ok(cublasLtMatmulPreferenceCreate(&preference));
  }
  LtCall(const LtCall&) = delete;
  LtCall& operator=(const LtCall&) = delete;
  ~LtCall() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (const cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(product);
    cublasLtDestroy(handle);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    ok(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value));
  }
  void align(std::uint32_t bytes) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      ok(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof bytes));
    }
  }
  int heuristic(cublasLtMatmulHeuristicResult_t& result) {
    int found = -1;
    (void)cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, d, d, preference, 1, &result, &found);
    return found;
  }
  cublasStatus_t run(const void* left, const void* right, void* out, const cublasLtMatmulAlgo_t* algorithm,
                     void* workspace = nullptr, std::size_t bytes = 0) {
    const float one = 1;
    const float zero = 0;
    return cublasLtMatmul(handle, product, &one, left, a, right, b, &zero, out, d, out, d, algorithm, workspace, bytes,
                          nullptr);
  }
};

constexpr int auxiliary = CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU;

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST_CASE("cublasLtMatmul has bias along the rows of D, and GELU in the tanh form") {
  const Fresh fresh;
  const std::vector<float> a{1, 0.5F, -1, 2, 0, 1};  // 3 × 2
  const std::vector<float> b{1, 2, -1, 0.25F};       // 2 × 2
  const std::vector<float> bias{0.5F, -0.25F, 1};
  const Array<float> da(a);
  const Array<float> db(b);
  const Array<float> dbias(bias);
  const auto plain = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(a[i]) * static_cast<double>(b[2 * j]) +
           static_cast<double>(a[i + 3]) * static_cast<double>(b[2 * j + 1]);
  };
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
    CAPTURE(epilogue);
    LtCall call(CUDA_R_32F, 3, 2, 2, 3, 2, 3);
    const Array<float> d(6);
    const Array<float> aux(16);
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(dbias.data));
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(aux.data));
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{8});
    cublasLtMatmulHeuristicResult_t result{};
    REQUIRE(call.heuristic(result) == 1);
    ok(call.run(da.data, db.data, d.data, &result.algo));
    const auto out = d.host();
    const auto before = aux.host();
    for (std::size_t at = 0; at < 16; ++at) {  // nothing else is written
      const bool inside = (epilogue & auxiliary) != 0 && at % 8 < 3;
      CHECK(std::isnan(before[at]) == !inside);
    }
    for (std::size_t j = 0; j < 2; ++j) {
      for (std::size_t i = 0; i < 3; ++i) {
        double x = plain(i, j);
        if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) x += static_cast<double>(bias[i]);
        if ((epilogue & auxiliary) != 0) CHECK(before[i + 8 * j] == doctest::Approx(x));
        if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) x = gelu_of(x);
        CHECK(out[i + 3 * j] == doctest::Approx(x));
      }
    }
  }
}

/// A product of 8 × 8 matrices of T with an auxiliary matrix.
template <class T>
struct KeepingCall : LtCall {
  explicit KeepingCall(cudaDataType type) : LtCall(type, 8, 8, 8, 8, 8, 8) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX);
    keep_at(aux.data);
    set_ld(8);
  }
  void keep_at(void* address) { set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, address); }
  void set_ld(std::int64_t ld) { set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld); }
  cublasStatus_t run_with(const cublasLtMatmulAlgo_t* algorithm) {
    return run(ones.data, ones.data, out.data, algorithm);
  }
  /// Neither the heuristic nor the product takes it.
  void refused(cublasStatus_t status, const std::vector<std::string>& words) {
    cublasLtMatmulHeuristicResult_t result{};
    CHECK(heuristic(result) == 0);
    if (!words.empty()) found(Finding::misuse, words);
    CHECK(run_with(nullptr) == status);
    if (!words.empty()) found(Finding::misuse, words);
    found_nothing();
  }

  Array<T> ones{std::vector<T>(64, T(1.0F))};
  Array<T> out{64};
  Array<T> aux{std::size_t{80}, "aux"};
};

TEST_CASE("The auxiliary matrix has rows of whole eights, an address, D's type, and memory of its own") {
  const Fresh fresh;
  KeepingCall<float> call(CUDA_R_32F);
  call.set_ld(12);
  call.refused(CUBLAS_STATUS_INVALID_VALUE, {"auxiliary matrix", "8 does not divide"});
  call.set_ld(0);
  call.refused(CUBLAS_STATUS_INVALID_VALUE, {"auxiliary matrix", "below m"});
  call.set_ld(8);
  call.keep_at(nullptr);
  call.refused(CUBLAS_STATUS_INVALID_VALUE, {"no auxiliary matrix"});
  call.keep_at(call.aux.data + 2);  // 8 bytes
  call.refused(CUBLAS_STATUS_NOT_SUPPORTED, {});
  call.keep_at(call.aux.data);
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, static_cast<std::int32_t>(CUDA_R_16F));
  call.refused(CUBLAS_STATUS_NOT_SUPPORTED, {});
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, static_cast<std::int32_t>(CUDA_R_32F));
  const Counters before = counters();
  ok(call.run_with(nullptr));
  CHECK(counters().lt_products - before.lt_products == 1);
  CHECK(counters().lt_auxiliaries - before.lt_auxiliaries == 1);
  for (void* shared : {call.ones.data, call.out.data}) {
    call.keep_at(shared);
    CHECK(call.run_with(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
    found(Finding::misuse, {"the auxiliary matrix overlaps"});
  }
  call.set_ld(16);  // 16 · 7 + 8 elements
  call.keep_at(call.aux.data);
  CHECK(call.run_with(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  found(Finding::bounds, {"'aux'"});
  KeepingCall<double> wide(CUDA_R_64F);
  cublasLtMatmulHeuristicResult_t result{};
  CHECK(wide.heuristic(result) == 1);
}

TEST_CASE("There is no other auxiliary matrix than GELU's") {
  const Fresh fresh;
  cublasLtMatmulHeuristicResult_t result{};
  KeepingCall<float> call(CUDA_R_32F);
  for (const auto epilogue : {CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD}) {
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    CHECK(call.heuristic(result) == 0);
    CHECK(call.run_with(nullptr) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

TEST_CASE("An algorithm is held to the alignment of the auxiliary matrix; what is written there is ordered") {
  const Fresh fresh(racing());
  KeepingCall<__half> call(CUDA_R_16F);
  cublasLtMatmulHeuristicResult_t result{};
  REQUIRE(call.heuristic(result) == 1);
  call.keep_at(call.aux.data + 8);  // 16 bytes, and the heuristic saw 256
  CHECK(call.run_with(&result.algo) == CUBLAS_STATUS_NOT_SUPPORTED);
  found(Finding::misuse, {"less aligned"});
  REQUIRE(call.heuristic(result) == 1);
  ok(call.run_with(&result.algo));
  const Stream other("other");
  __half first;
  cuda_emulation::ok(cudaMemcpyAsync(&first, call.aux.data + 8, sizeof first, cudaMemcpyDeviceToHost, other));
  found(Finding::race, {"'aux'", "cublasLtMatmul"});
}

TEST_CASE("The heuristic has nothing for 16-bit data that is not aligned") {
  const Fresh fresh;
  cublasLtMatmulHeuristicResult_t result{};
  LtCall even(CUDA_R_16F, 8, 8, 8, 8, 8, 8);
  CHECK(even.heuristic(result) == 1);
  even.align(16);
  CHECK(even.heuristic(result) == 1);
  even.align(2);
  CHECK(even.heuristic(result) == 0);
  LtCall odd(CUDA_R_16F, 7, 8, 8, 7, 8, 7);
  CHECK(odd.heuristic(result) == 0);
  LtCall wide(CUDA_R_32F, 7, 8, 8, 7, 8, 7);
  wide.align(4);
  CHECK(wide.heuristic(result) == 1);
}

TEST_CASE("An algorithm is held to the alignment and the workspace that it was chosen for") {
  const Fresh fresh;
  const Array<float> a(std::vector<float>(65, 1.0F));
  const Array<float> b(std::vector<float>(64, 1.0F));
  const Array<float> d(64);
  const Array<char> workspace(8192);
  LtCall call(CUDA_R_32F, 8, 8, 8, 8, 8, 8);
  const std::uint64_t allowed = 8192;
  ok(cublasLtMatmulPreferenceSetAttribute(call.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &allowed,
                                          sizeof allowed));
  cublasLtMatmulHeuristicResult_t result{};
  REQUIRE(call.heuristic(result) == 1);
  REQUIRE(result.workspaceSize > 0);
  CHECK(call.run(a.data, b.data, d.data, &result.algo) == CUBLAS_STATUS_INVALID_VALUE);
  ok(call.run(a.data, b.data, d.data, &result.algo, workspace.data, 8192));
  CHECK(d.host() == std::vector<float>(64, 8.0F));
  found_nothing();
  CHECK(call.run(a.data + 1, b.data, d.data, &result.algo, workspace.data, 8192) == CUBLAS_STATUS_NOT_SUPPORTED);
  found(Finding::misuse, {"less aligned"});
  call.align(4);
  REQUIRE(call.heuristic(result) == 1);
  ok(call.run(a.data + 1, b.data, d.data, &result.algo, workspace.data, 8192));
}

TEST_CASE("What the stand-in does not know is refused") {
  const Fresh fresh;
  LtCall call(CUDA_R_32F, 8, 8, 8, 8, 8, 8);
  const int one = 1;
  CHECK(cublasLtMatmulDescSetAttribute(call.product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &one, sizeof one) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  found(Finding::misuse, {"not emulated"});
  const std::int64_t wrong_size = 0;
  CHECK(cublasLtMatmulDescSetAttribute(call.product, CUBLASLT_MATMUL_DESC_TRANSA, &wrong_size, sizeof wrong_size) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace partita::cuda_emulation
