// SPDX-License-Identifier: Apache-2.0
// The peer: ScaLAPACK's pdgemm and psgemm over block-cyclic matrices.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/product.hpp"

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int cols);
void Cblacs_gridinfo(int context, int* rows, int* cols, int* row, int* col);
void Cblacs_gridexit(int context);
int numroc_(const int* n, const int* block, const int* at, const int* source, const int* parts);
void descinit_(int* descriptor, const int* m, const int* n, const int* mb, const int* nb, const int* row_source,
               const int* col_source, const int* context, const int* ld, int* info);
void psgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
             const float* a, const int* ia, const int* ja, const int* desca, const float* b, const int* ib,
             const int* jb, const int* descb, const float* beta, float* c, const int* ic, const int* jc,
             const int* descc);
void pdgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const double* alpha,
             const double* a, const int* ia, const int* ja, const int* desca, const double* b, const int* ib,
             const int* jb, const int* descb, const double* beta, double* c, const int* ic, const int* jc,
             const int* descc);
}

namespace bench {

/// All processes of MPI_COMM_WORLD as a grid of rows × cols.
class BlacsGrid {
 public:
  BlacsGrid(int rows, int cols) : rows_(rows), cols_(cols) {
    Cblacs_get(-1, 0, &context_);
    Cblacs_gridinit(&context_, "Row", rows, cols);
    Cblacs_gridinfo(context_, &rows_, &cols_, &row_, &col_);
  }
  BlacsGrid(const BlacsGrid&) = delete;
  BlacsGrid& operator=(const BlacsGrid&) = delete;
  ~BlacsGrid() { Cblacs_gridexit(context_); }

  int context_ = 0, rows_ = 0, cols_ = 0, row_ = 0, col_ = 0;
};

/// One rank's part of a column-major block-cyclic matrix with square blocks.
template <class T>
class CyclicMatrix {
 public:
  CyclicMatrix(const BlacsGrid& grid, Shape shape, int block)
      : row_(grid.row_), col_(grid.col_), rows_(grid.rows_), cols_(grid.cols_), block_(block) {
    const int m = static_cast<int>(shape.rows);
    const int n = static_cast<int>(shape.cols);
    const int zero = 0;
    local_rows_ = numroc_(&m, &block, &row_, &zero, &rows_);
    local_cols_ = numroc_(&n, &block, &col_, &zero, &cols_);
    ld_ = std::max(1, local_rows_);
    int info = 0;
    descinit_(descriptor_.data(), &m, &n, &block, &block, &zero, &zero, &grid.context_, &ld_, &info);
    if (info != 0) throw std::runtime_error("descinit gives " + std::to_string(info));
    data_.resize(static_cast<std::size_t>(std::max<index_t>(1, index_t{ld_} * local_cols_)));
  }

  /// Calls f(i, j, element) for each local element with its global index.
  template <class F>
  void for_each(const F& f) {
    for (int j = 0; j < local_cols_; ++j) {
      for (int i = 0; i < local_rows_; ++i) f(global(i, row_, rows_), global(j, col_, cols_), at(i, j));
    }
  }
  void fill(std::uint32_t seed) {
    for_each([seed](index_t i, index_t j, T& x) { x = static_cast<T>(element(seed, i, j)); });
  }
  [[nodiscard]] T* data() noexcept { return data_.data(); }
  [[nodiscard]] const int* descriptor() const noexcept { return descriptor_.data(); }

 private:
  [[nodiscard]] T& at(int i, int j) { return data_[static_cast<std::size_t>(i + index_t{ld_} * j)]; }
  [[nodiscard]] index_t global(int i, int part, int parts) const {
    return (index_t{i / block_} * parts + part) * block_ + i % block_;
  }

  int row_, col_, rows_, cols_, block_;
  int local_rows_ = 0, local_cols_ = 0, ld_ = 1;
  std::array<int, 9> descriptor_{};
  std::vector<T> data_;
};

template <class T>
class ScalapackProduct final : public Work {
 public:
  ScalapackProduct(const Problem& problem, int rows, int cols, int block)
      : problem_(problem),
        grid_(rows, cols),
        a_(grid_, problem.stored_a(), block),
        b_(grid_, problem.stored_b(), block),
        c_(grid_, {problem.m, problem.n}, block) {
    a_.fill(seed_of_a);
    b_.fill(seed_of_b);
  }

  void run() override {
    const int m = static_cast<int>(problem_.m);
    const int n = static_cast<int>(problem_.n);
    const int k = static_cast<int>(problem_.k);
    const int first = 1;
    const T one = 1;
    const T zero = 0;
    const char* ta = problem_.transpose_a ? "T" : "N";
    const char* tb = problem_.transpose_b ? "T" : "N";
    if constexpr (std::same_as<T, float>) {
      psgemm_(ta, tb, &m, &n, &k, &one, a_.data(), &first, &first, a_.descriptor(), b_.data(), &first, &first,
              b_.descriptor(), &zero, c_.data(), &first, &first, c_.descriptor());
    } else {
      pdgemm_(ta, tb, &m, &n, &k, &one, a_.data(), &first, &first, a_.descriptor(), b_.data(), &first, &first,
              b_.descriptor(), &zero, c_.data(), &first, &first, c_.descriptor());
    }
  }

  [[nodiscard]] bool equals(const void* whole) const override {
    const T* expected = static_cast<const T*>(whole);
    bool equal = true;
    c_.for_each([&](index_t i, index_t j, const T& x) { equal = equal && x == expected[i * problem_.n + j]; });
    return equal;
  }

 private:
  Problem problem_;
  BlacsGrid grid_;
  CyclicMatrix<T> a_, b_;
  mutable CyclicMatrix<T> c_;
};

}  // namespace bench
