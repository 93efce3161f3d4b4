// SPDX-License-Identifier: Apache-2.0
// A product of distributed matrices that is made once and run many times, its policy chosen at run time.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "backend.hpp"
#include "partita/matmul/across.hpp"
#include "policies.hpp"
#include "problem.hpp"

namespace bench {

/// One rank's part of something that all ranks run together.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  virtual void run() = 0;
  /// Whether this rank's part of the last result is that part of `whole`, the row-major C, to the bit.
  [[nodiscard]] virtual bool equals(const void* whole) const = 0;
};

namespace detail {

template <class T>
[[nodiscard]] bool block_equals(View<const T> local, Block block, const T* whole, index_t ld) {
  for (index_t i = 0; i < local.rows; ++i) {
    if (!std::equal(local.row(i), local.row(i) + local.cols, whole + (block.rows.begin + i) * ld + block.cols.begin)) {
      return false;
    }
  }
  return true;
}

template <class T, class P, class Grid>
[[nodiscard]] auto filled(const Grid& grid, Shape shape, std::uint32_t seed) {
  auto tensor = partita::zeros<T, P>(grid, shape);
  fill(tensor.local(), tensor.block(), seed);
  return tensor;
}

/// The partition in which a tensor is stored whose transpose, where that is asked for, has the partition P.
template <class P, bool Transposed>
using stored_t = std::conditional_t<Transposed, partita::transposed_t<P>, P>;

template <bool Transposed, class Tensor>
[[nodiscard]] auto seen(const Tensor& tensor) {
  if constexpr (Transposed) {
    return partita::transposed(tensor);
  } else {
    return tensor.view();
  }
}

/// Operands and result lie as the policy says.
template <class T, class Comm, class P, bool TransposeA, bool TransposeB>
class NativeProduct final : public Work {
  using Ctx = RankContext<Comm>;
  using A = stored_t<typename P::left, TransposeA>;
  using B = stored_t<typename P::right, TransposeB>;
  using C = typename P::result;

 public:
  NativeProduct(Ctx& context, const Policy& policy, const Problem& problem, const partita::MatmulOptions& options)
      : grid_(partita::make_grid_of<typename C::grid_type>(context, std::span<const int>(policy.extents))),
        a_(filled<T, A>(grid_, problem.stored_a(), seed_of_a)),
        b_(filled<T, B>(grid_, problem.stored_b(), seed_of_b)),
        c_(grid_, {problem.m, problem.n}),
        options_(options) {}

  void run() override { partita::matmul_into(c_, seen<TransposeA>(a_), seen<TransposeB>(b_), T(1), T(0), options_); }

  [[nodiscard]] bool equals(const void* whole) const override {
    return block_equals<T>(c_.local(), c_.block(), static_cast<const T*>(whole), c_.shape().cols);
  }

 private:
  partita::GridHandle<typename C::grid_type, Ctx> grid_;
  partita::DistTensor<T, A, Ctx> a_;
  partita::DistTensor<T, B, Ctx> b_;
  partita::DistTensor<T, C, Ctx> c_;
  partita::MatmulOptions options_;
};

/// Operands lie in blocks of columns, one for each rank, and the result is wanted as the policy says. Redistributes:
/// they are brought into the policy's partitions and multiplied; else the library multiplies them where they lie.
template <class T, class Comm, class P, bool Redistributes>
class ProductFromColumns final : public Work {
  using Ctx = RankContext<Comm>;
  using User = partita::ColumnShard<>;
  using C = typename P::result;

 public:
  ProductFromColumns(Ctx& context, const Policy& policy, const Problem& problem)
      : user_grid_(partita::make_grid<User>(context, context.size())),
        grid_(partita::make_grid_of<typename C::grid_type>(context, std::span<const int>(policy.extents))),
        a_(filled<T, User>(user_grid_, problem.stored_a(), seed_of_a)),
        b_(filled<T, User>(user_grid_, problem.stored_b(), seed_of_b)),
        c_(grid_, {problem.m, problem.n}) {}

  void run() override {
    if constexpr (Redistributes) {
      const auto a = partita::redistribute<typename P::left>(a_, grid_);
      const auto b = partita::redistribute<typename P::right>(b_, grid_);
      partita::matmul_into(c_, a, b);
    } else {
      partita::matmul_across_into(c_, a_, b_);
    }
  }

  [[nodiscard]] bool equals(const void* whole) const override {
    return block_equals<T>(c_.local(), c_.block(), static_cast<const T*>(whole), c_.shape().cols);
  }

 private:
  partita::GridHandle<typename User::grid_type, Ctx> user_grid_;
  partita::GridHandle<typename C::grid_type, Ctx> grid_;
  partita::DistTensor<T, User, Ctx> a_;
  partita::DistTensor<T, User, Ctx> b_;
  partita::DistTensor<T, C, Ctx> c_;
};

}  // namespace detail

/// The product under a policy, with its matrices made and filled. Collective over the ranks of the context.
template <class T, class Comm>
[[nodiscard]] std::unique_ptr<Work> make_product(RankContext<Comm>& context, const Policy& policy,
                                                 const Problem& problem, const partita::MatmulOptions& options = {}) {
  return std::visit(
      [&]<class P>(const P&) -> std::unique_ptr<Work> {
        if (problem.transpose_a) {
          return std::make_unique<detail::NativeProduct<T, Comm, P, true, false>>(context, policy, problem, options);
        }
        if (problem.transpose_b) {
          return std::make_unique<detail::NativeProduct<T, Comm, P, false, true>>(context, policy, problem, options);
        }
        return std::make_unique<detail::NativeProduct<T, Comm, P, false, false>>(context, policy, problem, options);
      },
      policy.family->pair);
}

/// How operands that lie in blocks of columns are multiplied: where they lie, or redistributed first.
enum class FromColumns { across, redistributed };

/// The product of operands that lie in blocks of columns, with a result under the policy. Pre: nothing is transposed.
template <class T, class Comm>
[[nodiscard]] std::unique_ptr<Work> make_product_from_columns(RankContext<Comm>& context, const Policy& policy,
                                                              const Problem& problem, FromColumns how) {
  return std::visit(
      [&]<class P>(const P&) -> std::unique_ptr<Work> {
        if (how == FromColumns::across) {
          return std::make_unique<detail::ProductFromColumns<T, Comm, P, false>>(context, policy, problem);
        }
        return std::make_unique<detail::ProductFromColumns<T, Comm, P, true>>(context, policy, problem);
      },
      policy.family->pair);
}

}  // namespace bench
