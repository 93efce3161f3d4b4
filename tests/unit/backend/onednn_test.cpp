// SPDX-License-Identifier: Apache-2.0
// OneDnnKernel: the laws with 16-bit products by oneDNN, where this processor has instructions for them.
#include "partita/backend/onednn.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <complex>
#include <vector>

#include "laws/backend_laws.hpp"
#include "partita/backend/eigen.hpp"

namespace partita {
namespace {

using Kernel = OneDnnKernel<EigenKernel>;

TEST_CASE_TEMPLATE("a backend with oneDNN obeys the backend laws", T, float, std::complex<double>, half, bfloat16) {
  CpuBackend<Kernel> backend{Kernel()};
  laws::check_backend<T>(backend);
}

TEST_CASE_TEMPLATE("16-bit products, strided and transposed, equal those widened to fp32 where sums are exact", T, half,
                   bfloat16) {
  if (!Kernel::helps<T>()) {
    MESSAGE("SKIPPED: oneDNN has no product of its own for this type on this processor; data is widened instead");
    return;
  }
  Kernel kernel;
  CpuBackend<EigenKernel> widening;
  for (const Shape s : {Shape{1, 1}, Shape{1, 33}, Shape{17, 1}, Shape{40, 50}}) {
    for (const index_t k : {1, 2, 63, 130}) {
      for (int turn = 0; turn < 8; ++turn) {
        CAPTURE(s.rows);
        CAPTURE(s.cols);
        CAPTURE(k);
        CAPTURE(turn);
        const bool a_transposed = (turn & 1) != 0, b_transposed = (turn & 2) != 0;
        const index_t gap = (turn & 4) != 0 ? 3 : 0;
        laws::GappedMatrix<T> a(a_transposed ? Shape{k, s.rows} : Shape{s.rows, k}, gap, 1);
        laws::GappedMatrix<T> b(b_transposed ? Shape{s.cols, k} : Shape{k, s.cols}, gap, 2);
        laws::GappedMatrix<float> found(s, gap, 3), wanted(s, gap, 3);
        const float alpha = turn < 4 ? 1.0F : -2.0F;
        const MatrixOperand<T> left{a.view, a_transposed}, right{b.view, b_transposed};
        if (!kernel.narrow_gemm<T>(alpha, left, right, found.view)) {
          CHECK(std::min({s.rows, s.cols, k}) == 1);  // oneDNN has only its reference for some thin strided matrices
          continue;
        }
        widening.gemm<T>(alpha, left, right, wanted.view);
        CHECK(found.memory == wanted.memory);
      }
    }
  }
}

}  // namespace
}  // namespace partita
