// SPDX-License-Identifier: Apache-2.0
// The linked BLAS, and a note of its calls where a rank wants one, so that they can be run again without the library.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "partita/backend/blas.hpp"

namespace bench {

/// Products in the order of their calls. Operands are read where they lay; results are added in memory of their own,
/// one for each block that was written, since the library's may be gone.
class NotedProducts {
 public:
  template <class T>
  void note(T alpha, const partita::MatrixOperand<T>& a, const partita::MatrixOperand<T>& b, partita::View<T> c) {
    std::vector<std::byte>& memory = results_[c.data];
    const auto bytes = static_cast<std::size_t>(c.size()) * sizeof(T);
    if (memory.size() < bytes) memory.resize(bytes);
    calls_.push_back([alpha, a, b, shape = c.shape(), &memory] {
      partita::detail::blas_gemm<T>(alpha, a, b, {reinterpret_cast<T*>(memory.data()), shape});
    });
  }
  void run() const {
    for (const std::function<void()>& call : calls_) call();
  }

 private:
  std::map<const void*, std::vector<std::byte>> results_;
  std::vector<std::function<void()>> calls_;
};

/// Where the products of this thread are noted while it lives.
class Noting {
 public:
  explicit Noting(NotedProducts& products) { current() = &products; }
  ~Noting() { current() = nullptr; }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

  [[nodiscard]] static NotedProducts*& current() {
    static thread_local NotedProducts* products = nullptr;
    return products;
  }
};

/// Belongs to the thread that made it: what it multiplies is noted where that thread notes, whoever calls.
class NotingKernel {
 public:
  using any_thread = NotingKernel;

  template <class T>
  void gemm(T alpha, const partita::MatrixOperand<T>& a, const partita::MatrixOperand<T>& b, partita::View<T> c) {
    if (*noting_ != nullptr) (*noting_)->note<T>(alpha, a, b, c);
    kernel_.gemm(alpha, a, b, c);
  }

 private:
  partita::BlasKernel kernel_;
  NotedProducts** noting_ = &Noting::current();
};

}  // namespace bench
