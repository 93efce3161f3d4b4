// SPDX-License-Identifier: Apache-2.0
// EigenBackend: the laws for every scalar, padding that stays untouched, and 16-bit data that is rounded once.
#include "partita/backend/eigen.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "laws/backend_laws.hpp"
#include "support/fills.hpp"

namespace partita {
namespace {

TEST_CASE_TEMPLATE("EigenBackend obeys the backend laws", T, float, double, std::complex<float>, std::complex<double>,
                   half, bfloat16) {
  EigenBackend backend;
  laws::check_backend<T>(backend);
}

TEST_CASE("G07: a leading dimension larger than the row leaves the padding alone") {
  const index_t m = 64, n = 239, k = 64;
  std::vector<double> a(64 * 64), b(64 * 240, -7777), c(64 * 240, -7777);
  for (index_t i = 0; i < 64; ++i) {
    for (index_t j = 0; j < k; ++j) a[static_cast<std::size_t>(i * 64 + j)] = static_cast<double>(test::fill_a(i, j));
    for (index_t j = 0; j < n; ++j) b[static_cast<std::size_t>(i * 240 + j)] = static_cast<double>(test::fill_b(i, j));
  }
  EigenBackend backend;
  const View<double> out(c.data(), m, n, 240);
  backend.scale<double>(0, out);
  backend.gemm<double>(1, {{a.data(), m, k, 64}}, {{b.data(), k, n, 240}}, out);
  double sum = 0, weighted = 0;
  for (index_t i = 0; i < m; ++i) {
    for (index_t j = 0; j < n; ++j) {
      sum += out(i, j);
      weighted += out(i, j) * static_cast<double>(i * n + j + 1);
    }
    CHECK(c[static_cast<std::size_t>(i * 240 + n)] == -7777);
    CHECK(b[static_cast<std::size_t>(i * 240 + n)] == -7777);
  }
  CHECK(sum == 12);
  CHECK(weighted == 122838);
  CHECK(out(0, 0) == 12);
  CHECK(out(63, 238) == 9);
}

TEST_CASE("16-bit products are carried in fp32, over slices of k too") {
  // 2048 ones and a 2^-6: bfloat16 sums would stop at 256, and lose the last term.
  const index_t k = 2049;
  std::vector<bfloat16> a(static_cast<std::size_t>(k), bfloat16(1.0F)), b(static_cast<std::size_t>(k), bfloat16(1.0F));
  a.back() = bfloat16(0x1p-6F);
  float c = 0;
  EigenBackend backend;
  backend.gemm<bfloat16>(1.0F, {{a.data(), 1, k, k}}, {{b.data(), k, 1, 1}}, View<float>(&c, 1, 1, 1));
  CHECK(c == 2048.015625F);
  // Rounded once where it is stored: 1 + 2^-9 + 2^-9 is above the tie 1 + 2^-8 - …, each addend alone is below it.
  bfloat16 stored(1.0F);
  const float addend = 0x1p-8F + 0x1p-20F;
  backend.combine<bfloat16>(1.0F, View<const float>(&addend, 1, 1, 1), View<bfloat16>(&stored, 1, 1, 1));
  CHECK(static_cast<float>(stored) == 1.0078125F);
}

TEST_CASE("scale by one keeps every bit, by zero gives plus zero") {
  EigenBackend backend;
  double x[] = {-0.0, std::nan(""), -3.0};
  backend.scale<double>(1, View<double>(x, 1, 3, 3));
  CHECK(std::signbit(x[0]));
  CHECK(std::isnan(x[1]));
  backend.scale<double>(0, View<double>(x, 1, 3, 3));
  for (const double v : x) CHECK((v == 0 && !std::signbit(v)));
}

TEST_CASE("operands: logical shape and rectangles of what is stored transposed") {
  float memory[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const MatrixOperand<float> x{View<const float>(memory, 3, 4, 4), true, false};
  CHECK(x.rows() == 4);
  CHECK(x.cols() == 3);
  const auto part = x.sub({{1, 3}, {2, 3}});
  CHECK(part.rows() == 2);
  CHECK(part.cols() == 1);
  CHECK(part.stored(0, 0) == 9);
  CHECK(part.stored(0, 1) == 10);
  CHECK(x.sub({{1, 1}, {0, 3}}).stored.data == nullptr);
}

}  // namespace
}  // namespace partita
