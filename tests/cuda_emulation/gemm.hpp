// SPDX-License-Identifier: Apache-2.0
// The arithmetic of cuBLAS's products: D = epilogue(alpha·op(A)·op(B) + beta·C), column-major.
#pragma once

#include <library_types.h>

#include <complex>
#include <cstddef>
#include <cstdint>

namespace partita::cuda_emulation {

enum class Activation { none, relu, gelu };

/// A stored column-major matrix, or one that is read transposed and perhaps conjugated.
struct GemmOperand {
  const char* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::int64_t ld = 0;
  bool transposed = false;
  bool conjugated = false;
};

struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::complex<double> alpha;
  std::complex<double> beta;
  GemmOperand a;
  GemmOperand b;
  GemmOperand c;  // not read where beta is 0
  char* d = nullptr;
  cudaDataType d_type = CUDA_R_32F;
  std::int64_t ldd = 0;
  bool tf32 = false;           // operands are rounded to 10 bits of fraction
  const char* bias = nullptr;  // m elements, added to each column
  cudaDataType bias_type = CUDA_R_32F;
  Activation activation = Activation::none;
  char* aux = nullptr;  // receives what the activation is applied to
  std::int64_t ld_aux = 0;
  cudaDataType aux_type = CUDA_R_32F;
};

/// In the type that the data accumulates in: fp32 for 16-bit and fp32 data, else its own.
void run_gemm(const Gemm& g);

/// 0 for types that are not emulated.
[[nodiscard]] std::size_t size_of(cudaDataType type);
[[nodiscard]] bool is_complex(cudaDataType type);
[[nodiscard]] std::complex<double> load_scalar(const void* from, cudaDataType type);

}  // namespace partita::cuda_emulation
