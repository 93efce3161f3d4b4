// SPDX-License-Identifier: Apache-2.0
// Products and sums of cuBLAS.
#include <algorithm>
#include <cstring>

#include "cuda_emulation/cublas_handle.hpp"

namespace partita::cuda_emulation {

bool types_fit(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  const bool single = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  const bool fast = single || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const bool wide = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  if (a != b) return false;
  switch (a) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return single && (c == a || c == CUDA_R_32F);
    case CUDA_R_32F:
    case CUDA_C_32F:
      return fast && c == a;
    case CUDA_R_64F:
    case CUDA_C_64F:
      return wide && c == a;
    default:
      return false;
  }
}

cudaDataType scale_type(cudaDataType a) { return a == CUDA_R_16F || a == CUDA_R_16BF ? CUDA_R_32F : a; }

Rectangle stored(const void* data, cudaDataType type, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  const std::size_t size = size_of(type);
  return {data, static_cast<std::size_t>(ld) * size, static_cast<std::size_t>(rows) * size,
          static_cast<std::size_t>(cols)};
}

/// How much of a workspace a product spoils.
constexpr std::size_t most_scratch = 4096;

cublasStatus_t enqueue_gemms(Machine& m, const char* name, const std::shared_ptr<CUstream_st>& stream,
                             std::vector<Gemm> products, const Rectangle& workspace) {
  Operation op;
  op.name = name;
  op.stream = stream;
  const auto operand = [](const GemmOperand& x, std::int64_t rows, std::int64_t cols) {
    return x.transposed ? stored(x.data, x.type, cols, rows, x.ld) : stored(x.data, x.type, rows, cols, x.ld);
  };
  for (Gemm& g : products) {
    const Rectangle d = stored(g.d, g.d_type, g.m, g.n, g.ldd);
    const Rectangle a = operand(g.a, g.m, g.k);
    const Rectangle b = operand(g.b, g.k, g.n);
    op.accesses.push_back(reads(a));
    op.accesses.push_back(reads(b));
    if (g.beta != 0.0) op.accesses.push_back(reads(operand(g.c, g.m, g.n)));
    op.accesses.push_back(writes(d));
    if (g.bias != nullptr) {
      op.accesses.push_back(reads({g.bias, static_cast<std::size_t>(g.m) * size_of(g.bias_type)}));
    }
    if (overlap(a, d) || overlap(b, d)) {
      m.report(Finding::misuse, std::string(name) + " on " + stream->label + ": the result overlaps an operand");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (g.aux != nullptr) {
      const Rectangle aux = stored(g.aux, g.aux_type, g.m, g.n, g.ld_aux);
      op.accesses.push_back(writes(aux));
      if (overlap(a, aux) || overlap(b, aux) || overlap(d, aux)) {
        m.report(Finding::misuse,
                 std::string(name) + " on " + stream->label + ": the auxiliary matrix overlaps another one");
        return CUBLAS_STATUS_INVALID_VALUE;
      }
    }
    for (const Rectangle& r : {a, b, d}) {
      const std::size_t size = size_of(g.a.type);
      if (r.base % std::min(size, size_of(g.d_type)) == 0) continue;
      m.report(Finding::misuse, std::string(name) + " on " + stream->label + ": an operand is not aligned");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    g.a.data = m.memory.bytes_of(g.a.data);
    g.b.data = m.memory.bytes_of(g.b.data);
    g.c.data = m.memory.bytes_of(g.c.data);
    g.d = m.memory.bytes_of(g.d);
    if (g.bias != nullptr) g.bias = m.memory.bytes_of(g.bias);
    if (g.aux != nullptr) g.aux = m.memory.bytes_of(g.aux);
  }
  if (!workspace.empty()) op.accesses.push_back(writes(workspace));
  if (!m.admit(stream->device, name, op.accesses)) return CUBLAS_STATUS_INVALID_VALUE;
  char* scratch = m.memory.bytes_of(reinterpret_cast<char*>(workspace.base));
  const std::size_t scratch_bytes = std::min(workspace.span(), most_scratch);
  op.work = [all = std::move(products), scratch, scratch_bytes](Lock& lock) {
    unlocked(lock, [&] {
      if (scratch_bytes > 0) std::memset(scratch, Memory::poison, scratch_bytes);
      for (const Gemm& g : all) run_gemm(g);
    });
  };
  m.enqueue(std::move(op));
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

struct Call {
  const char* name;
  cublasHandle_t handle;
  cublasOperation_t op_a;
  cublasOperation_t op_b;
  std::int64_t m, n, k;
  const void* alpha;
  GemmOperand a;
  GemmOperand b;
  const void* beta;
  void* c;
  cudaDataType c_type;
  std::int64_t ldc;
  cublasComputeType_t compute;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
  int batch = 1;
};

cublasStatus_t gemm(Machine& m, Call call) {
  if (!usable(m, call.handle, call.name)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto stream = m.stream_of(call.handle->stream, call.name);
  if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!types_fit(call.a.type, call.b.type, call.c_type, call.compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  call.a.transposed = call.op_a != CUBLAS_OP_N;
  call.a.conjugated = call.op_a == CUBLAS_OP_C;
  call.b.transposed = call.op_b != CUBLAS_OP_N;
  call.b.conjugated = call.op_b == CUBLAS_OP_C;
  const std::int64_t rows_a = call.a.transposed ? call.k : call.m;
  const std::int64_t rows_b = call.b.transposed ? call.n : call.k;
  const auto least = [](std::int64_t rows) { return std::max<std::int64_t>(rows, 1); };
  if (call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0 || call.a.ld < least(rows_a) ||
      call.b.ld < least(rows_b) || call.ldc < least(call.m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (call.m == 0 || call.n == 0 || call.batch == 0) return CUBLAS_STATUS_SUCCESS;
  Gemm g;
  g.m = call.m;
  g.n = call.n;
  g.k = call.k;
  g.alpha = load_scalar(call.alpha, scale_type(call.a.type));
  g.beta = load_scalar(call.beta, scale_type(call.a.type));
  g.d_type = call.c_type;
  g.ldd = call.ldc;
  g.tf32 = call.a.type == CUDA_R_32F && call.compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
           (call.compute == CUBLAS_COMPUTE_32F_FAST_TF32 || call.handle->math == CUBLAS_TF32_TENSOR_OP_MATH);
  std::vector<Gemm> products;
  for (int i = 0; i < call.batch; ++i) {
    const auto offset = [i](std::int64_t stride, cudaDataType type) {
      return i * stride * static_cast<std::int64_t>(size_of(type));
    };
    g.a = call.a;
    g.a.data += offset(call.stride_a, call.a.type);
    g.b = call.b;
    g.b.data += offset(call.stride_b, call.b.type);
    g.d = static_cast<char*>(call.c) + offset(call.stride_c, call.c_type);
    g.c = {g.d, call.c_type, call.ldc, false, false};
    products.push_back(g);
  }
  return enqueue_gemms(m, call.name, stream, std::move(products),
                       {call.handle->workspace, call.handle->workspace_bytes});
}

GemmOperand operand(const void* data, cudaDataType type, std::int64_t ld) {
  return {static_cast<const char*>(data), type, ld, false, false};
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  return enter<cublasStatus_t>("cublasGemmEx", [&](Machine& machine_, Lock&) {
    return gemm(machine_, {"cublasGemmEx", handle, op_a, op_b, m, n, k, alpha, operand(a, a_type, lda),
                           operand(b, b_type, ldb), beta, c, c_type, ldc, compute});
  });
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                               int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t lda,
                               const void* b, cudaDataType b_type, int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, int64_t ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return enter<cublasStatus_t>("cublasGemmEx_64", [&](Machine& machine_, Lock&) {
    return gemm(machine_, {"cublasGemmEx_64", handle, op_a, op_b, m, n, k, alpha, operand(a, a_type, lda),
                           operand(b, b_type, ldb), beta, c, c_type, ldc, compute});
  });
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                                          long long stride_a, const void* b, cudaDataType b_type, int ldb,
                                          long long stride_b, const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  return enter<cublasStatus_t>("cublasGemmStridedBatchedEx", [&](Machine& machine_, Lock&) {
    return gemm(machine_,
                {"cublasGemmStridedBatchedEx", handle, op_a, op_b, m, n, k, alpha, operand(a, a_type, lda),
                 operand(b, b_type, ldb), beta, c, c_type, ldc, compute, stride_a, stride_b, stride_c, batch});
  });
}
