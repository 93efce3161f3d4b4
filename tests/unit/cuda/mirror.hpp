// SPDX-License-Identifier: Apache-2.0
// Host memory's copies on the device, and a backend for host views made of them.
#pragma once

#include <cstddef>

#include "partita/backend/cuda.hpp"

namespace partita::test {

/// A host view's elements on the device, with the same leading dimension.
template <class T>
struct Mirror {
  Mirror(CudaBackend& backend, View<const T> host)
      : memory(static_cast<std::size_t>(host.empty() ? 0 : host.rows * host.ld) * sizeof(T), backend.stream()),
        view(static_cast<T*>(memory.data()), host.rows, host.cols, host.ld) {
    backend.copy<T>(host, view);
  }
  CudaMemory memory;
  View<T> view;
};

/// A backend for host views, so that the laws run: every operand goes to the device, and the result comes back.
class MirroredBackend {
 public:
  explicit MirroredBackend(CudaBackend& backend) : backend_(backend) {}

  template <MatmulScalar T>
  void gemm(accumulate_t<T> alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<accumulate_t<T>> out) {
    const Mirror<T> left(backend_, a.stored);
    const Mirror<T> right(backend_, b.stored);
    const Mirror<accumulate_t<T>> result(backend_, out);
    backend_.gemm<T>(alpha, {left.view, a.transposed, a.conjugated}, {right.view, b.transposed, b.conjugated},
                     result.view);
    backend_.copy<accumulate_t<T>>(result.view, out);
  }
  template <class T>
  void copy(View<const T> in, View<T> out) {
    const Mirror<T> from(backend_, in);
    const Mirror<T> to(backend_, out);
    backend_.copy<T>(from.view, to.view);
    backend_.copy<T>(to.view, out);
  }
  template <MatmulScalar T>
  void scale(accumulate_t<T> beta, View<T> out) {
    const Mirror<T> result(backend_, out);
    backend_.scale<T>(beta, result.view);
    backend_.copy<T>(result.view, out);
  }
  template <MatmulScalar T>
  void combine(accumulate_t<T> beta, View<const accumulate_t<T>> in, View<T> out) {
    const Mirror<accumulate_t<T>> from(backend_, in);
    const Mirror<T> result(backend_, out);
    backend_.combine<T>(beta, from.view, result.view);
    backend_.copy<T>(result.view, out);
  }
  void sync() { backend_.sync(); }

 private:
  CudaBackend& backend_;
};

}  // namespace partita::test
