// SPDX-License-Identifier: Apache-2.0
// From features to logits: linear layers to few classes and to a cut vocabulary, and one that shares a table.
#pragma once

#include <memory>
#include <utility>

#include "partita/nn/linear.hpp"

namespace partita {

/// Logits of few classes, for features with partition Stream: W [K, classes] has its rows cut as the features are, and
/// the classes uncut; b is the same on all ranks. Forward sums the partial logits along the axes over the features,
/// then adds b once; backward communicates nothing.
template <class T, class Stream, class Ctx>
using Classifier = Linear<T, Stream, transposed_t<features_of_t<Stream>>, tokens_of_t<Stream>, Ctx>;

/// Logits of which the classes are cut as a strategy cuts what lies inside its layers: the Linear from Stream to Inner.
template <class T, class Strategy, class Ctx>
using VocabParallelClassifier =
    Linear<T, typename Strategy::Stream, typename Strategy::Enter, typename Strategy::Inner, Ctx>;

/// Logits = X·Eᵀ of the table E [V, H] of an Embedding (Press and Wolf, 2017), which both layers learn: X [M, H] with
/// partition In, logits [M, V] with partition Out, or the one that the product has by itself. The table's gradient is
/// the sum of both contributions, and is ready when both layers have added theirs.
/// Tokens: the partition of the embedding's output, which names the axes along which that gradient is summed.
template <class T, class Table, class In, class Ctx, class Out = typename MatmulRule<In, transposed_t<Table>>::result,
          class Tokens = In>
class TiedClassifier {
 public:
  using value_type = T;
  using context_type = Ctx;
  using input = In;
  using output = Out;
  using table_parameter = Parameter<T, Table, Tokens, Ctx>;

  /// Local. `table`: Embedding::shared_table().
  explicit TiedClassifier(std::shared_ptr<table_parameter> table) : table_(std::move(table)) { table_->share(); }

  [[nodiscard]] Activation<T, Out, Ctx> forward(Activation<T, In, Ctx> x, const Pass& = {}) {
    auto logits = matmul<Out>(*x, partita::transposed(std::as_const(*table_).value()));
    x_ = std::move(x);
    return logits;
  }

  /// dX, given dLogits. Adds to the gradient. Errors, on all ranks: ArgumentError without forward(), ShapeError,
  /// UnitError.
  [[nodiscard]] Activation<T, In, Ctx> backward(const Activation<T, Out, Ctx>& dlogits) {
    detail::check_backward("tied " + table_->name(), static_cast<bool>(x_), extent_of(*dlogits),
                           x_ ? output_extent(extent_of(*x_)) : Extent2D{});
    auto dx = detail::matmul_while<In>(*dlogits, std::as_const(*table_).value(), [&] {
      matmul_into(table_->gradient(), partita::transposed(*dlogits), *x_, 1, 1);
      table_->contribute();
    });
    x_.reset();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept { x_.reset(); }

  template <class F>
  void for_each_parameter(F&& f) {
    f(*table_);
  }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    detail::product_steps<T, In, transposed_t<Table>, Out>(place, x, table_extent().transposed(), f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    const Extent2D dlogits = output_extent(x);
    detail::product_while_steps<T, Out, Table, In>(place, dlogits, table_extent(), f);
    detail::product_steps<T, transposed_t<Out>, In, typename table_parameter::gradient_partition>(
        place, dlogits.transposed(), x, f);
  }
  /// Of the logits for an X of this extent.
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const {
    const Extent2D e = table_extent();
    return {{x.shape.rows, e.shape.rows}, {x.units.rows, e.units.rows}};
  }

 private:
  [[nodiscard]] Extent2D table_extent() const { return extent_of(std::as_const(*table_).value()); }

  std::shared_ptr<table_parameter> table_;
  Activation<T, In, Ctx> x_;
};

}  // namespace partita
