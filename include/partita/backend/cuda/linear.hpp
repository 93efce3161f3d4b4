// SPDX-License-Identifier: Apache-2.0
// out = activation(alpha·a·b + bias) in one pass of cublasLt, row-major.
#pragma once

#include <cublasLt.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "partita/backend/cuda/gemm.hpp"
#include "partita/cuda/handles.hpp"

namespace partita::detail {

/// The alignment that cublasLt may rely on, at most the 256 bytes that it asks for.
inline std::uint32_t alignment_of(const void* data) noexcept {
  const auto zeros = std::countr_zero(reinterpret_cast<std::uintptr_t>(data) | 256U);
  return std::uint32_t{1} << static_cast<unsigned>(zeros);
}

/// The descriptors of one product.
class LtProduct {
 public:
  LtProduct(cublasComputeType_t compute, cudaDataType_t scale) {
    cublasLtMatmulDesc_t product = nullptr;
    cublas_check(cublasLtMatmulDescCreate(&product, compute, scale), "cublasLtMatmulDescCreate");
    product_ = decltype(product_)(product);
    cublasLtMatmulPreference_t preference = nullptr;
    cublas_check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    preference_ = decltype(preference_)(preference);
  }

  using Layout = CudaOwner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  /// The stored block as cublasLt sees it: its transpose, column-major.
  template <class T>
  static Layout layout(View<T> v) {
    cublasLtMatrixLayout_t made = nullptr;
    cublas_check(
        cublasLtMatrixLayoutCreate(&made, cuda_type<std::remove_const_t<T>>(), static_cast<std::uint64_t>(v.cols),
                                   static_cast<std::uint64_t>(v.rows), cuda_ld(v)),
        "cublasLtMatrixLayoutCreate");
    return Layout(made);
  }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    cublas_check(cublasLtMatmulDescSetAttribute(product_.get(), attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  template <class Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    cublas_check(cublasLtMatmulPreferenceSetAttribute(preference_.get(), attribute, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  [[nodiscard]] cublasLtMatmulDesc_t get() const noexcept { return product_.get(); }
  [[nodiscard]] cublasLtMatmulPreference_t preference() const noexcept { return preference_.get(); }

 private:
  CudaOwner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  CudaOwner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference_;
};

inline std::int32_t lt_epilogue(bool bias, LinearActivation activation, bool keep) {
  switch (activation) {  // GELU is the tanh form, the only one that cublasLt has
    case LinearActivation::relu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case LinearActivation::gelu_tanh:
      if (keep) return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

/// out = activation(alpha·a·b + bias), rounded once; bias is a row that is added to each row of out, or empty. Where
/// `before` is not empty, before = alpha·a·b + bias, rounded once: cublasLt's auxiliary matrix, which only GELU has, of
/// out's type, with rows that begin at multiples of 8 elements. False, with nothing done, where it is otherwise, or
/// cublasLt has no algorithm (16-bit blocks that do not begin at 16 bytes). Pre: T is real; no dimension is 0.
template <class T>
bool lt_linear(cublasLtHandle_t handle, cudaStream_t stream, bool tf32, const CudaMemory& workspace,
               accumulate_t<T> alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<const T> bias,
               LinearActivation activation, View<T> out, View<T> before) {
  using A = accumulate_t<T>;
  const bool keep = !before.empty();
  if (keep && (activation != LinearActivation::gelu_tanh || cuda_ld(before) % 8 != 0)) return false;
  LtProduct product(cuda_compute<T>(tf32), cuda_type<A>());
  const auto left = LtProduct::layout(b.stored);  // outᵀ = bᵀ·aᵀ
  const auto right = LtProduct::layout(a.stored);
  const auto result = LtProduct::layout(out);
  product.set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(cuda_op(b)));
  product.set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(cuda_op(a)));
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(!bias.empty(), activation, keep));
  if (!bias.empty()) product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data));
  if (keep) {  // from this address cublasLt knows the alignment
    product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(before.data));
    product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(cuda_ld(before)));
  }
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace.bytes()));
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b.stored.data));
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a.stored.data));
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(out.data));
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(out.data));

  cublasLtMatmulHeuristicResult_t choice{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, product.get(), left.get(), right.get(), result.get(), result.get(),
                                     product.preference(), 1, &choice, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) return false;
  cublas_check(status, "cublasLtMatmulAlgoGetHeuristic");
  const A beta(0);
  cublas_check(cublasLtMatmul(handle, product.get(), &alpha, b.stored.data, left.get(), a.stored.data, right.get(),
                              &beta, out.data, result.get(), out.data, result.get(), &choice.algo, workspace.data(),
                              workspace.bytes(), stream),
               "cublasLtMatmul");
  return true;
}

}  // namespace partita::detail
