// SPDX-License-Identifier: Apache-2.0
// The descriptors of cublasLt. Attributes that the stand-ins do not know are refused.
#include <cstring>

#include "cuda_emulation/cublas_lt.hpp"

namespace partita::cuda_emulation {
namespace {

template <class T, class Opaque>
cublasStatus_t create(const char* name, Opaque** made, T initial) {
  return enter<cublasStatus_t>(name, [&](Machine& m, Lock&) {
    *made = new T(initial);
    m.cublas_objects.insert(*made);
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T, class Opaque>
cublasStatus_t destroy(const char* name, Opaque* handle) {
  return enter<cublasStatus_t>(name, Kind::release, [&](Machine& m, Lock&) {
    T* object = lt_object<T>(m, handle, name);
    if (object == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    m.cublas_objects.erase(handle);
    delete object;
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t assign(T& field, const void* data, std::size_t bytes) {
  if (data == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, data, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t unknown(Machine& m, const char* who, int attribute) {
  m.report(Finding::misuse, std::string(who) + ": attribute " + std::to_string(attribute) + " is not emulated");
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
  LtProduct product{};
  product.compute = compute;
  product.scale = scale;
  return create(__func__, made, product);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy<LtProduct>(__func__, handle); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, size_t bytes) {
  const char* who = __func__;
  return enter<cublasStatus_t>(who, [&](Machine& m, Lock&) {
    auto* p = lt_object<LtProduct>(m, handle, who);
    if (p == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        return assign(p->pointer_mode, data, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return assign(p->op_a, data, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return assign(p->op_b, data, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return assign(p->epilogue, data, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return assign(p->bias, data, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return assign(p->bias_type, data, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return assign(p->aux, data, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return assign(p->ld_aux, data, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
        return assign(p->aux_type, data, bytes);
      default:
        return unknown(m, who, attribute);
    }
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
  LtLayout layout{};
  layout.type = type;
  layout.rows = rows;
  layout.cols = cols;
  layout.ld = ld;
  return create(__func__, made, layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy<LtLayout>(__func__, handle);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* data,
                                                size_t bytes) {
  const char* who = __func__;
  return enter<cublasStatus_t>(who, [&](Machine& m, Lock&) {
    auto* l = lt_object<LtLayout>(m, handle, who);
    if (l == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
      case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return assign(l->order, data, bytes);
      case CUBLASLT_MATRIX_LAYOUT_ROWS:
        return assign(l->rows, data, bytes);
      case CUBLASLT_MATRIX_LAYOUT_COLS:
        return assign(l->cols, data, bytes);
      case CUBLASLT_MATRIX_LAYOUT_LD:
        return assign(l->ld, data, bytes);
      case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return assign(l->batch, data, bytes);
      default:
        return unknown(m, who, attribute);
    }
  });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return create(__func__, made, LtPreference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy<LtPreference>(__func__, handle);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* data,
                                                    size_t bytes) {
  const char* who = __func__;
  return enter<cublasStatus_t>(who, [&](Machine& m, Lock&) {
    auto* p = lt_object<LtPreference>(m, handle, who);
    if (p == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return assign(p->workspace, data, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return assign(p->alignment_a, data, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return assign(p->alignment_b, data, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return assign(p->alignment_c, data, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return assign(p->alignment_d, data, bytes);
      default:
        return unknown(m, who, attribute);
    }
  });
}
