// SPDX-License-Identifier: Apache-2.0
// CudaBackend: device memory, a stream, and cuBLAS for products. Plain C++: no compiler for kernels is needed, unless
// 16-bit results are rounded from fp32, or layers run (backend/cuda/kernels.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "partita/backend/body.hpp"
#include "partita/backend/concepts.hpp"
#include "partita/backend/cuda/gemm.hpp"
#include "partita/backend/cuda/kernels.hpp"
#include "partita/backend/cuda/linear.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita {

struct CudaOptions {
  /// Products of fp32 data may round operands to TF32, which is many times faster.
  bool tf32 = false;
  /// What cuBLAS may use beside the operands: the size that NVIDIA advises for its newest devices.
  std::size_t workspace_bytes = std::size_t{32} << 20;
};

/// The local work of a rank on the device that is current when the backend is made, and must be current in every call.
/// Views hold device addresses. Calls are ordered on the stream for arithmetic of the rank's timeline, which the
/// communicator shares, and return before they are done: sync() waits. Throws CudaError, NoDeviceError, CapacityError;
/// sync() also what the communicator throws where a peer has failed.
class CudaBackend {
 public:
  static constexpr bool host_memory = false;

  explicit CudaBackend(CudaOptions options = {}) : CudaBackend(std::make_shared<CudaTimeline>(), options) {}
  explicit CudaBackend(std::shared_ptr<CudaTimeline> timeline, CudaOptions options = {})
      : options_(options),
        timeline_(std::move(timeline)),
        cublas_(timeline_),
        workspace_(options.workspace_bytes, timeline_->compute()) {
    detail::cublas_check(cublasSetStream(cublas_.get(), timeline_->compute()), "cublasSetStream");
    if (workspace_.bytes() > 0) {  // which a new stream takes away
      detail::cublas_check(cublasSetWorkspace(cublas_.get(), workspace_.data(), workspace_.bytes()),
                           "cublasSetWorkspace");
    }
  }

  [[nodiscard]] const std::shared_ptr<CudaTimeline>& timeline() const noexcept { return timeline_; }
  /// The stream for work of the user's own, which may touch anything: it comes after all communication begun so far,
  /// and before all that is begun later. To be asked for again after every communication.
  [[nodiscard]] cudaStream_t stream() {
    timeline_->before_compute({cuda_everything()});
    return timeline_->compute();
  }

  /// Whether views may hold this address: memory that CUDA knows, of a device or pinned.
  [[nodiscard]] bool reaches(const void* data) const noexcept {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess)
      return attributes.type != cudaMemoryTypeUnregistered;
    (void)cudaGetLastError();
    return false;
  }

  /// out += alpha·a·b, where a is m×k, b k×n and out m×n. Transposes are free; an operand that is conjugated and not
  /// transposed is copied once, as cuBLAS reads no such operand.
  template <MatmulScalar T>
  void gemm(accumulate_t<T> alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<accumulate_t<T>> out) {
    if (out.empty() || a.cols() == 0) return;
    timeline_->before_compute({cuda_access(a.stored), cuda_access(b.stored), cuda_access(out)});
    if constexpr (is_complex_v<T>) {
      const auto left = readable(a, left_);
      const auto right = readable(b, right_);
      detail::cuda_gemm<T>(cublas_.get(), options_.tf32, alpha, left, right, out);
    } else {
      detail::cuda_gemm<T>(cublas_.get(), options_.tf32, alpha, a, b, out);
    }
  }

  /// out = activation(alpha·a·b + bias) in one pass, where bias is a row of out's width or empty; `before`, where it is
  /// not empty, is set to what the activation, GELU, is applied to. For 16-bit data that is the sum in fp32, which
  /// `before` has rounded. False, with nothing done, where cublasLt has no algorithm for these blocks, or cannot keep
  /// `before` (detail::lt_linear): then gemm() and element-wise work do it.
  template <MatmulScalar T>
    requires(!is_complex_v<T>)
  [[nodiscard]] bool linear(accumulate_t<T> alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b,
                            View<const T> bias, LinearActivation activation, View<T> out, View<T> before = {}) {
    if (out.empty()) return true;
    if (a.cols() == 0) return false;
    timeline_->before_compute(
        {cuda_access(a.stored), cuda_access(b.stored), cuda_access(bias), cuda_access(out), cuda_access(before)});
    const auto handle = reinterpret_cast<cublasLtHandle_t>(cublas_.get());  // which is one of these too, as documented
    return detail::lt_linear<T>(handle, timeline_->compute(), options_.tf32, workspace_, alpha, a, b, bias, activation,
                                out, before);
  }

  /// Either view may be host memory; memory that is not page-locked makes the call wait.
  template <class T>
  void copy(View<const T> in, View<T> out) {
    if (out.empty()) return;
    timeline_->before_compute({cuda_access(in), cuda_access(out)});
    const auto pitch = [](const auto& view) {
      return static_cast<std::size_t>(view.rows == 1 ? view.cols : view.ld) * sizeof(T);
    };
    detail::cuda_check(cudaMemcpy2DAsync(out.data, pitch(out), in.data, pitch(in), row_bytes(out),
                                         static_cast<std::size_t>(out.rows), cudaMemcpyDefault, timeline_->compute()),
                       "cudaMemcpy2DAsync");
  }

  /// All bytes of out = 0.
  template <class T>
  void clear(View<T> out) {
    if (out.empty()) return;
    timeline_->before_compute({cuda_access(out)});
    const auto pitch = static_cast<std::size_t>(out.rows == 1 ? out.cols : out.ld) * sizeof(T);
    detail::cuda_check(
        cudaMemset2DAsync(out.data, pitch, 0, row_bytes(out), static_cast<std::size_t>(out.rows), timeline_->compute()),
        "cudaMemset2DAsync");
  }

  /// out = beta·out. With beta = 0 the old values, NaN among them, do not survive.
  template <MatmulScalar T>
  void scale(accumulate_t<T> beta, View<T> out) {
    using A = accumulate_t<T>;
    if (out.empty() || beta == A(1)) return;
    timeline_->before_compute({cuda_access(out)});
    if (beta == A(0)) {
      clear(out);
    } else if constexpr (is_storage_only_v<T>) {
      detail::launch_combine<T>(timeline_->compute(), beta, View<const float>(nullptr, out.shape()), out);
    } else {
      detail::cuda_add<T>(cublas_.get(), T(0), out, beta, out);
    }
  }

  /// out = beta·out + in, rounded once.
  template <MatmulScalar T>
  void combine(accumulate_t<T> beta, View<const accumulate_t<T>> in, View<T> out) {
    if (out.empty()) return;
    timeline_->before_compute({cuda_access(in), cuda_access(out)});
    if constexpr (is_storage_only_v<T>) {
      detail::launch_combine<T>(timeline_->compute(), beta, in, out);
    } else if (beta == T(0)) {
      copy<T>(in, out);
    } else {
      detail::cuda_add<T>(cublas_.get(), T(1), in, beta, out);
    }
  }

  /// The body for all i in [0, count) (backend/body.hpp), on views of device memory. A program links only where a unit
  /// of kernels names the body; those of the layers are compiled into partita::cuda_kernels.
  template <class Body>
  void for_each_index(index_t count, const Body& body) {
    if (count <= 0) return;
    timeline_->before_compute(map_views(body, [](const auto& view) { return cuda_access(view); }));
    detail::launch_for_each_index(timeline_->compute(), count, body);
  }

  /// Waits for all work of the rank, communication too.
  void sync() { timeline_->sync(); }

 private:
  template <class T>
  static std::size_t row_bytes(View<T> view) {
    return static_cast<std::size_t>(view.cols) * sizeof(T);
  }

  /// The operand in a form that cuBLAS can read: (xᴴ)ᵀ for the conjugate of x.
  template <class T>
  MatrixOperand<T> readable(const MatrixOperand<T>& x, CudaMemory& scratch) {
    if (!x.conjugated || x.transposed) return x;
    const auto bytes = static_cast<std::size_t>(x.stored.size()) * sizeof(T);
    if (scratch.bytes() < bytes) {
      scratch = CudaMemory();
      scratch = CudaMemory(bytes, timeline_->compute());
    }
    const View<T> copy(static_cast<T*>(scratch.data()), x.stored.shape().transposed());
    detail::cuda_conjugate_transpose<T>(cublas_.get(), x.stored, copy);
    return {copy, true, false};
  }

  CudaOptions options_;
  std::shared_ptr<CudaTimeline> timeline_;
  detail::TimelineCublas cublas_;
  CudaMemory workspace_;
  CudaMemory left_;
  CudaMemory right_;
};

static_assert(Backend<CudaBackend>);

}  // namespace partita
