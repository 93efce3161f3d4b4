// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/gemm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace partita::cuda_emulation {
namespace {

template <class T>
T raw(const char* from, std::size_t i) {
  T x;
  std::memcpy(&x, from + i * sizeof(T), sizeof(T));
  return x;
}
template <class T>
void put(char* into, std::size_t i, T x) {
  std::memcpy(into + i * sizeof(T), &x, sizeof(T));
}

template <class Acc>
constexpr bool complex_acc = !std::is_floating_point_v<Acc>;

template <class Acc>
Acc load(const char* from, cudaDataType type, std::size_t i) {
  if constexpr (complex_acc<Acc>) {
    using R = typename Acc::value_type;
    if (type == CUDA_C_32F) return Acc(raw<std::complex<float>>(from, i));
    const auto z = raw<std::complex<double>>(from, i);
    return Acc(static_cast<R>(z.real()), static_cast<R>(z.imag()));
  } else {
    switch (type) {
      case CUDA_R_16F:
        return static_cast<Acc>(__half2float(raw<__half>(from, i)));
      case CUDA_R_16BF:
        return static_cast<Acc>(__bfloat162float(raw<__nv_bfloat16>(from, i)));
      case CUDA_R_32F:
        return static_cast<Acc>(raw<float>(from, i));
      default:
        return static_cast<Acc>(raw<double>(from, i));
    }
  }
}

template <class Acc>
void store(char* into, cudaDataType type, std::size_t i, Acc x) {
  if constexpr (complex_acc<Acc>) {
    if (type == CUDA_C_32F) return put(into, i, std::complex<float>(x));
    put(into, i, std::complex<double>(x));
  } else {
    switch (type) {
      case CUDA_R_16F:
        return put(into, i, __float2half_rn(static_cast<float>(x)));
      case CUDA_R_16BF:
        return put(into, i, __float2bfloat16_rn(static_cast<float>(x)));
      case CUDA_R_32F:
        return put(into, i, static_cast<float>(x));
      default:
        return put(into, i, static_cast<double>(x));
    }
  }
}

/// To nearest, ties to even.
float rounded_to_tf32(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((u + 0xfffU + ((u >> 13) & 1U)) & ~0x1fffU);
}

/// op(X), rows × cols, dense and column-major.
template <class Acc>
std::vector<Acc> unpacked(const GemmOperand& x, std::int64_t rows, std::int64_t cols, bool tf32) {
  std::vector<Acc> dense(static_cast<std::size_t>(rows * cols));
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = x.transposed ? j + i * x.ld : i + j * x.ld;
      Acc value = load<Acc>(x.data, x.type, static_cast<std::size_t>(at));
      if constexpr (complex_acc<Acc>) {
        if (x.conjugated) value = std::conj(value);
      } else if constexpr (std::is_same_v<Acc, float>) {
        if (tf32) value = rounded_to_tf32(value);
      }
      dense[static_cast<std::size_t>(i + j * rows)] = value;
    }
  }
  return dense;
}

/// The tanh form, which cublasLt has.
double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

template <class Acc>
void run(const Gemm& g) {
  const auto m = static_cast<std::size_t>(g.m);
  const auto scalar = [](std::complex<double> z) {
    if constexpr (complex_acc<Acc>) {
      return Acc(z);
    } else {
      return static_cast<Acc>(z.real());
    }
  };
  const Acc alpha = scalar(g.alpha);
  const Acc beta = scalar(g.beta);
  const std::vector<Acc> a = unpacked<Acc>(g.a, g.m, g.k, g.tf32);
  const std::vector<Acc> b = unpacked<Acc>(g.b, g.k, g.n, g.tf32);
  std::vector<Acc> column(m);
  for (std::int64_t j = 0; j < g.n; ++j) {
    std::fill(column.begin(), column.end(), Acc(0));
    for (std::int64_t p = 0; p < g.k; ++p) {
      const Acc factor = b[static_cast<std::size_t>(p + j * g.k)];
      const Acc* from = a.data() + static_cast<std::size_t>(p) * m;
      for (std::size_t i = 0; i < m; ++i) column[i] += from[i] * factor;
    }
    for (std::size_t i = 0; i < m; ++i) {
      Acc x = alpha * column[i];
      if (g.beta != 0.0) x += beta * load<Acc>(g.c.data, g.c.type, i + static_cast<std::size_t>(j * g.c.ld));
      if constexpr (!complex_acc<Acc>) {
        if (g.bias != nullptr) x += load<Acc>(g.bias, g.bias_type, i);
        if (g.aux != nullptr) store(g.aux, g.aux_type, i + static_cast<std::size_t>(j * g.ld_aux), x);
        if (g.activation == Activation::relu) x = x > 0 ? x : Acc(0);
        if (g.activation == Activation::gelu) x = static_cast<Acc>(gelu(static_cast<double>(x)));
      }
      store(g.d, g.d_type, i + static_cast<std::size_t>(j * g.ldd), x);
    }
  }
}

}  // namespace

void run_gemm(const Gemm& g) {
  switch (g.a.type) {
    case CUDA_R_64F:
      return run<double>(g);
    case CUDA_C_32F:
      return run<std::complex<float>>(g);
    case CUDA_C_64F:
      return run<std::complex<double>>(g);
    default:
      return run<float>(g);
  }
}

std::size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_64F:
    case CUDA_C_32F:
      return 8;
    case CUDA_C_64F:
      return 16;
    default:
      return 0;
  }
}

bool is_complex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

std::complex<double> load_scalar(const void* from, cudaDataType type) {
  const char* bytes = static_cast<const char*>(from);
  if (is_complex(type)) return load<std::complex<double>>(bytes, type, 0);
  return load<double>(bytes, type, 0);
}

}  // namespace partita::cuda_emulation
