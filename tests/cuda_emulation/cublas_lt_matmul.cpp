// SPDX-License-Identifier: Apache-2.0
// cublasLtMatmul and its one algorithm, which promises nothing about alignments that the heuristic was not told.
#include <algorithm>
#include <cstring>

#include "cuda_emulation/cublas_lt.hpp"

namespace partita::cuda_emulation {
namespace {

constexpr std::uint64_t algorithm_mark = 0x70617274697461;
constexpr std::uint64_t workspace_wanted = 4096;
constexpr std::uint32_t auxiliary = 128;  // the bit of epilogues that have an auxiliary matrix

struct Problem {
  LtProduct* product;
  LtLayout* a;
  LtLayout* b;
  LtLayout* c;
  LtLayout* d;
};

bool find(Machine& m, const char* who, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
          cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, Problem& p) {
  p = {lt_object<LtProduct>(m, product, who), lt_object<LtLayout>(m, a, who), lt_object<LtLayout>(m, b, who),
       lt_object<LtLayout>(m, c, who), lt_object<LtLayout>(m, d, who)};
  return p.product != nullptr && p.a != nullptr && p.b != nullptr && p.c != nullptr && p.d != nullptr;
}

bool known_epilogue(std::uint32_t e) {
  switch (e) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return true;
    default:
      return false;
  }
}

cublasStatus_t shapes(const Problem& p, Gemm& g) {
  const LtProduct& x = *p.product;
  for (const LtLayout* l : {p.a, p.b, p.c, p.d}) {
    if (l->order != CUBLASLT_ORDER_COL || l->batch != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (l->ld < std::max<std::int64_t>(1, static_cast<std::int64_t>(l->rows))) return CUBLAS_STATUS_INVALID_VALUE;
  }
  g.a.transposed = x.op_a != CUBLAS_OP_N;
  g.a.conjugated = x.op_a == CUBLAS_OP_C;
  g.b.transposed = x.op_b != CUBLAS_OP_N;
  g.b.conjugated = x.op_b == CUBLAS_OP_C;
  g.m = static_cast<std::int64_t>(p.d->rows);
  g.n = static_cast<std::int64_t>(p.d->cols);
  g.k = static_cast<std::int64_t>(g.a.transposed ? p.a->rows : p.a->cols);
  const auto is = [](const LtLayout& l, std::int64_t rows, std::int64_t cols, bool transposed) {
    const auto r = static_cast<std::uint64_t>(transposed ? cols : rows);
    const auto c = static_cast<std::uint64_t>(transposed ? rows : cols);
    return l.rows == r && l.cols == c;
  };
  if (!is(*p.a, g.m, g.k, g.a.transposed) || !is(*p.b, g.k, g.n, g.b.transposed) || !is(*p.c, g.m, g.n, false)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool fits = types_fit(p.a->type, p.b->type, p.d->type, x.compute) && p.c->type == p.d->type &&
                    x.scale == scale_type(p.a->type) && x.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  const bool plain = x.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!fits || !known_epilogue(x.epilogue) || (is_complex(p.a->type) && !plain)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

/// The tensor cores' condition on 16-bit data; other data needs the alignment of its elements.
bool aligned(const LtLayout& l, std::uint32_t base) {
  const auto size = static_cast<std::uint32_t>(size_of(l.type));
  const bool narrow = l.type == CUDA_R_16F || l.type == CUDA_R_16BF;
  const std::uint32_t unit = narrow ? 16 : size;
  return base % unit == 0 && (static_cast<std::uint64_t>(l.ld) * size) % unit == 0;
}

/// At most 256, as the alignments that a preference tells.
std::uint64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256U;
  return address & (~address + 1);
}

/// The auxiliary matrix of an epilogue that has one: what the documentation demands is reported; other types than D's,
/// and addresses that are not multiples of 16 bytes, have no algorithm.
cublasStatus_t check_auxiliary(Machine& m, const char* who, const Problem& p) {
  const LtProduct& x = *p.product;
  if ((x.epilogue & auxiliary) == 0) return CUBLAS_STATUS_SUCCESS;
  const char* wrong = nullptr;
  if (x.aux == nullptr) wrong = "no auxiliary matrix, which the epilogue needs";
  if (x.ld_aux < static_cast<std::int64_t>(p.d->rows)) wrong = "the auxiliary matrix has a leading dimension below m";
  if (x.ld_aux % 8 != 0) wrong = "the auxiliary matrix has a leading dimension that 8 does not divide";
  if (wrong != nullptr) {
    m.report(Finding::misuse, std::string(who) + ": " + wrong);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool own_type = x.aux_type < 0 || x.aux_type == p.d->type;
  return own_type && alignment_of(x.aux) >= 16 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool keeps_promise(const void* data, std::uint64_t alignment) {
  return alignment == 0 || reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

cublasStatus_t add_epilogue(Machine& m, const Problem& p, Gemm& g) {
  const LtProduct& x = *p.product;
  const auto own_or = [&](std::int32_t type) { return type < 0 ? p.d->type : static_cast<cudaDataType>(type); };
  if ((x.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
    if (x.bias == nullptr) {
      m.report(Finding::misuse, "cublasLtMatmul: an epilogue with a bias, and no bias");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    g.bias = static_cast<const char*>(x.bias);
    g.bias_type = own_or(x.bias_type);
  }
  if ((x.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) g.activation = Activation::relu;
  if ((x.epilogue & CUBLASLT_EPILOGUE_GELU) != 0) g.activation = Activation::gelu;
  if ((x.epilogue & auxiliary) != 0) {
    g.aux = static_cast<char*>(x.aux);
    g.ld_aux = x.ld_aux;
    g.aux_type = p.d->type;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return enter<cublasStatus_t>(__func__, [&](Machine& m, Lock&) {
    if (m.options.devices == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext{current_device()};
    m.cublas_objects.insert(*handle);
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return enter<cublasStatus_t>(__func__, Kind::release, [&](Machine& m, Lock&) {
    if (m.cublas_objects.erase(handle) == 0) {
      m.report(Finding::misuse, "cublasLtDestroy: no such handle, or one that was destroyed");
      return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
  });
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const char* who = __func__;
  return enter<cublasStatus_t>(who, [&](Machine& m, Lock&) {
    *found = 0;
    Problem p;
    const auto* wish = lt_object<LtPreference>(m, preference, who);
    if (!m.cublas_objects.contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (wish == nullptr || wanted < 1 || !find(m, who, product, a, b, c, d, p)) return CUBLAS_STATUS_INVALID_VALUE;
    Gemm g;
    if (const cublasStatus_t status = shapes(p, g); status != CUBLAS_STATUS_SUCCESS) return status;
    if (!aligned(*p.a, wish->alignment_a) || !aligned(*p.b, wish->alignment_b) || !aligned(*p.c, wish->alignment_c) ||
        !aligned(*p.d, wish->alignment_d)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (const cublasStatus_t status = check_auxiliary(m, who, p); status != CUBLAS_STATUS_SUCCESS) return status;
    results[0] = cublasLtMatmulHeuristicResult_t{};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].workspaceSize = wish->workspace >= workspace_wanted ? workspace_wanted : 0;
    const std::uint64_t content[] = {algorithm_mark,
                                     results[0].workspaceSize,
                                     wish->alignment_a,
                                     wish->alignment_b,
                                     wish->alignment_c,
                                     wish->alignment_d,
                                     (p.product->epilogue & auxiliary) != 0 ? alignment_of(p.product->aux) : 0};
    std::memcpy(results[0].algo.data, content, sizeof content);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream_handle) {
  const char* who = __func__;
  return enter<cublasStatus_t>(who, [&](Machine& m, Lock&) {
    Problem p;
    if (!m.cublas_objects.contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!find(m, who, product, a_layout, b_layout, c_layout, d_layout, p)) return CUBLAS_STATUS_INVALID_VALUE;
    const auto stream = m.stream_of(stream_handle, who);
    if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (stream->device != current_device()) {
      m.report(Finding::wrong_device, std::string(who) + " on " + stream->label + ", while device " +
                                          std::to_string(current_device()) + " is current");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    Gemm g;
    if (const cublasStatus_t status = shapes(p, g); status != CUBLAS_STATUS_SUCCESS) return status;
    if (const cublasStatus_t status = check_auxiliary(m, who, p); status != CUBLAS_STATUS_SUCCESS) return status;
    std::size_t used = workspace_bytes;
    if (algorithm != nullptr) {
      const auto& promise = algorithm->data;
      if (promise[0] != algorithm_mark) return CUBLAS_STATUS_INVALID_VALUE;
      used = static_cast<std::size_t>(promise[1]);
      if (workspace_bytes < used) return CUBLAS_STATUS_INVALID_VALUE;
      if (!keeps_promise(a, promise[2]) || !keeps_promise(b, promise[3]) || !keeps_promise(c, promise[4]) ||
          !keeps_promise(d, promise[5]) || !keeps_promise(p.product->aux, promise[6])) {
        m.report(Finding::misuse,
                 std::string(who) + " on " + stream->label + ": a matrix is less aligned than the heuristic was told");
        return CUBLAS_STATUS_NOT_SUPPORTED;
      }
    }
    if (g.m == 0 || g.n == 0) return CUBLAS_STATUS_SUCCESS;
    g.alpha = load_scalar(alpha, p.product->scale);
    g.beta = load_scalar(beta, p.product->scale);
    const auto place = [](GemmOperand& x, const void* data, const LtLayout& l) {
      x.data = static_cast<const char*>(data);
      x.type = l.type;
      x.ld = l.ld;
    };
    place(g.a, a, *p.a);
    place(g.b, b, *p.b);
    place(g.c, c, *p.c);
    g.d = static_cast<char*>(d);
    g.d_type = p.d->type;
    g.ldd = p.d->ld;
    g.tf32 = p.product->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (const cublasStatus_t status = add_epilogue(m, p, g); status != CUBLAS_STATUS_SUCCESS) return status;
    ++m.faults.counters.lt_products;
    if (g.aux != nullptr) ++m.faults.counters.lt_auxiliaries;
    return enqueue_gemms(m, who, stream, {g}, {workspace, used});
  });
}
