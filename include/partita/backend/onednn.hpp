// SPDX-License-Identifier: Apache-2.0
// 16-bit products by oneDNN, on processors that have instructions for them.
#pragma once

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "partita/backend/cpu.hpp"
#include "partita/base/error.hpp"

extern "C" [[gnu::weak]] void partita_omp_set_num_threads(int) __asm__("omp_set_num_threads");

namespace partita {

/// Multiplies bfloat16 and half with oneDNN where it has a kernel of its own for them on this processor (bfloat16:
/// AVX-512 BF16; half: oneDNN 3 and AVX-512 FP16), with sums in fp32; everything else as Base does, which is another
/// kernel: CpuBackend<OneDnnKernel<BlasKernel>>. Where oneDNN runs on OpenMP, the thread that makes the kernel gets
/// `threads` threads for it, at least 1 (ArgumentError); a kernel belongs to the thread of its rank.
template <CpuKernel Base>
class OneDnnKernel : public Base {
 public:
  explicit OneDnnKernel(Base base = Base(), int threads = 1) : Base(std::move(base)) {
    if (threads < 1) {
      throw ArgumentError("ArgumentError: OneDnnKernel with " + std::to_string(threads) +
                          " threads; it needs at least 1");
    }
    if (partita_omp_set_num_threads != nullptr) partita_omp_set_num_threads(threads);
  }

  /// c += alpha·a·b; false, and nothing done, where oneDNN is of no help. Pre: no operand is empty.
  template <class T>
    requires is_storage_only_v<T>
  bool narrow_gemm(float alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<float> c) {
    if (!helps<T>()) return false;
    using dnnl::memory;
    dnnl::primitive_attr attributes;
    dnnl::post_ops after;
    after.append_sum(1);
    attributes.set_post_ops(after);
#if DNNL_VERSION_MAJOR >= 3
    if (alpha != 1) return false;  // factors are arguments of the call there, of which strided products have none
#else
    if (alpha != 1) attributes.set_output_scales(0, {alpha});
#endif
    const auto left = description(a, type_of<T>());
    const auto right = description(b, type_of<T>());
    const auto out = description(MatrixOperand<float>{c}, memory::data_type::f32);
    std::optional<dnnl::matmul::primitive_desc> product;
    try {
#if DNNL_VERSION_MAJOR >= 3
      product.emplace(engine_, left, right, out, attributes);
#else
      product.emplace(dnnl::matmul::desc(left, right, out), attributes, engine_);
#endif
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_unimplemented) return false;
      throw;
    }
    if (std::string_view(product->impl_info_str()).find("ref") != std::string_view::npos) return false;
    const auto at = [&](const memory::desc& d, const void* data) {
      return memory(d, engine_, const_cast<void*>(data));
    };
    dnnl::matmul(*product).execute(stream_, {{DNNL_ARG_SRC, at(left, a.stored.data)},
                                             {DNNL_ARG_WEIGHTS, at(right, b.stored.data)},
                                             {DNNL_ARG_DST, at(out, c.data)}});
    stream_.wait();
    return true;
  }

  /// Whether narrow_gemm multiplies this type here.
  template <class T>
  [[nodiscard]] static bool helps() {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto has = [isa](dnnl::cpu_isa wanted) {
      return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
    };
#if DNNL_VERSION_MAJOR >= 3
    if constexpr (std::is_same_v<T, half>) return has(dnnl::cpu_isa::avx512_core_fp16);
#else
    if constexpr (std::is_same_v<T, half>) return false;
#endif
    return has(dnnl::cpu_isa::avx512_core_bf16);
  }

 private:
  template <class T>
  static constexpr dnnl::memory::data_type type_of() {
    return std::is_same_v<T, half> ? dnnl::memory::data_type::f16 : dnnl::memory::data_type::bf16;
  }

  /// An operand as it is read: a transposed block is its stored rows taken as columns.
  template <class T>
  static dnnl::memory::desc description(const MatrixOperand<T>& x, dnnl::memory::data_type type) {
    const index_t ld = std::max(x.stored.ld, x.stored.cols);
    if (x.transposed) return {{x.rows(), x.cols()}, type, {1, ld}};
    return {{x.rows(), x.cols()}, type, {ld, 1}};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace partita
