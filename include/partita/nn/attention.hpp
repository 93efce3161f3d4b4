// SPDX-License-Identifier: Apache-2.0
// Multi-head self-attention, its heads cut over ranks.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "partita/nn/attention_core.hpp"
#include "partita/nn/check.hpp"
#include "partita/nn/dropout.hpp"
#include "partita/nn/linear.hpp"
#include "partita/nn/seed.hpp"
#include "partita/nn/strategy.hpp"

namespace partita {

struct AttentionOptions {
  index_t heads = 1;
  /// Features of a head; 0: features / heads, which must then divide.
  index_t head_width = 0;
  /// Tokens of a sequence; 0: the row unit of the input.
  index_t sequence = 0;
  /// A token sees itself and those before it.
  bool causal = false;
  /// Of the probabilities, in training.
  double dropout = 0;
  bool bias = true;
  std::uint64_t seed = 0;
};

/// Y = concat_h(softmax(Q_h·K_hᵀ/√width)·V_h)·W + b (Vaswani et al., 2017, equation 1 and section 3.2.2), X and Y
/// [tokens, features] with partition S::Stream. Between, heads are cut over the axes of S::Inner's columns, as evenly
/// as their number allows, and no sequence is cut.
///
/// Queries, keys and values come from one linear layer of S::Enter's partition whose columns are, head by head, those
/// of q, k and v (join_query_key_value() makes its weight of three), so that its input is gathered once and the input's
/// gradient is summed once; the output layer has S::Leave's.
///
/// Pass::lengths says how many tokens of each sequence are meant. The others are padding: no token attends to them, and
/// their own row is zero before the output layer, as are their gradients.
///
/// Communicates what the two linear layers do, and nothing between them.
template <class T, class S, class Ctx>
class SelfAttention {
 public:
  using value_type = T;
  using context_type = Ctx;
  using input = typename S::Stream;
  using output = typename S::Stream;
  using Inner = typename S::Inner;
  using enter_layer = Linear<T, input, typename S::Enter, Inner, Ctx>;
  using leave_layer = Linear<T, Inner, typename S::Leave, output, Ctx>;

  /// Collective over the grid. Errors, on all ranks: ArgumentError where heads or options do not fit; ShapeError,
  /// CapacityError.
  template <class G>
  SelfAttention(const GridHandle<G, Ctx>& grid, std::string name, index_t features, const AttentionOptions& options)
      : name_(std::move(name)),
        options_(checked(name_, features, options)),
        enter_(grid, name_ + ".query_key_value", features, 3 * inner_features(),
               {.bias = options.bias, .seed = seed_of_part(options.seed, 0), .out_unit = 3 * options_.head_width}),
        leave_(grid, name_ + ".output", inner_features(), features,
               {.bias = options.bias, .seed = seed_of_part(options.seed, 1), .in_unit = options_.head_width}) {}

  /// The linear layers that lead to queries, keys and values, and from the heads.
  [[nodiscard]] enter_layer& query_key_value() noexcept { return enter_; }
  [[nodiscard]] leave_layer& output_layer() noexcept { return leave_; }

  /// Errors, on all ranks: ShapeError where the rows are no whole sequences or the lengths are not theirs; UnitError
  /// where S::Inner cuts rows and may cut inside a sequence; CapacityError.
  [[nodiscard]] Activation<T, output, Ctx> forward(Activation<T, input, Ctx> x, const Pass& pass = {}) {
    check_sequences(extent_of(*x), x->grid().ranks().extents(), pass);
    sequence_ = sequence_of(extent_of(*x));
    pass_ = pass;
    qkv_ = enter_.forward(std::move(x), pass);
    auto heads = inner_tensor(inner_features(), options_.head_width);
    core().forward(heads.local());
    return leave_.forward(detail::narrowed<T>(std::move(heads)), pass);
  }

  /// dX, given dY. Adds to the gradients. Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, input, Ctx> backward(const Activation<T, output, Ctx>& dy) {
    if (!qkv_) throw ArgumentError("ArgumentError: backward() of " + name_ + " without forward()");
    const auto dheads = leave_.backward(dy);
    auto dqkv = inner_tensor(3 * inner_features(), 3 * options_.head_width);
    core().backward(dheads->local(), dqkv.local());
    qkv_.reset();
    return enter_.backward(detail::narrowed<T>(std::move(dqkv)));
  }

  /// Forgets what backward() would need.
  void forget() noexcept {
    qkv_.reset();
    enter_.forget();
    leave_.forget();
  }

  template <class F>
  void for_each_parameter(F&& f) {
    enter_.for_each_parameter(f);
    leave_.for_each_parameter(f);
  }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    enter_.forward_steps(place, x, f);
    leave_.forward_steps(place, heads_extent(x), f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    leave_.backward_steps(place, heads_extent(x), f);
    enter_.backward_steps(place, x, f);
  }
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return leave_.output_extent(heads_extent(x)); }

 private:
  using A = accumulate_t<T>;

  static AttentionOptions checked(const std::string& name, index_t features, AttentionOptions options) {
    const std::string asked =
        name + " with " + std::to_string(options.heads) + " heads over " + std::to_string(features) + " features";
    if (options.heads < 1 || options.head_width < 0 || options.sequence < 0) {
      throw ArgumentError("ArgumentError: " + asked + ", of width " + std::to_string(options.head_width) +
                          " over sequences of " + std::to_string(options.sequence) +
                          "; it needs at least one head, and no negative size");
    }
    if (options.head_width == 0) {
      if (features < options.heads || features % options.heads != 0) {
        throw ArgumentError("ArgumentError: " + asked + "; give a head_width, or a number of heads that divides them");
      }
      options.head_width = features / options.heads;
    }
    detail::check_dropout_rate(name, options.dropout);
    return options;
  }

  [[nodiscard]] index_t sequence_of(const Extent2D& x) const {
    return options_.sequence > 0 ? options_.sequence : x.units.rows;
  }
  void check_sequences(const Extent2D& x, const AxisValues& extents, const Pass& pass) const {
    const index_t sequence = sequence_of(x);
    const std::string asked = name_ + " over sequences of " + std::to_string(sequence) + " tokens";
    if (x.shape.rows % sequence != 0) {
      throw ShapeError("ShapeError: " + asked + ", the input has " + std::to_string(x.shape.rows) +
                       " rows; it must be whole sequences");
    }
    if (group_size(Inner::layout.rows, extents) > 1 && x.units.rows % sequence != 0) {
      throw UnitError("UnitError: " + asked + ", the input's rows may be cut at multiples of " +
                      std::to_string(x.units.rows) + "; give it a row unit that is a multiple of the sequence");
    }
    if (pass.lengths.empty()) return;
    const auto count = static_cast<std::size_t>(x.shape.rows / sequence);
    if (pass.lengths.size() != count) {
      throw ShapeError("ShapeError: " + asked + ", the input has " + std::to_string(count) +
                       " of them, Pass::lengths " + std::to_string(pass.lengths.size()));
    }
    for (const index_t length : pass.lengths) {
      if (length >= 0 && length <= sequence) continue;
      throw ShapeError("ShapeError: " + asked + ", Pass::lengths has one of " + std::to_string(length));
    }
  }

  [[nodiscard]] index_t inner_features() const { return options_.heads * options_.head_width; }
  [[nodiscard]] Extent2D heads_extent(const Extent2D& x) const {
    return {{x.shape.rows, inner_features()}, {x.units.rows, options_.head_width}};
  }
  /// Zeros in the type of sums, with the rows of the query-key-value activation.
  [[nodiscard]] DistTensor<A, Inner, Ctx> inner_tensor(index_t cols, index_t unit) const {
    auto tensor =
        DistTensor<A, Inner, Ctx>::uninitialized(qkv_->grid(), {qkv_->shape().rows, cols}, {qkv_->units().rows, unit});
    tensor.context().backend().template scale<A>(0, tensor.local());
    return tensor;
  }
  [[nodiscard]] detail::AttentionCore<T, Ctx> core() const {
    const kernel::Keep keep{seed_of_part(options_.seed, 2), pass_.step, pass_.training ? options_.dropout : 0.0};
    return {qkv_->context(),
            {sequence_, options_.head_width, options_.causal, keep},
            pass_.lengths,
            qkv_->block(),
            qkv_->local()};
  }

  std::string name_;
  AttentionOptions options_;
  enter_layer enter_;
  leave_layer leave_;
  Activation<T, Inner, Ctx> qkv_;
  index_t sequence_ = 1;
  Pass pass_;
};

/// The weight or bias of SelfAttention's first linear layer, of those of queries, keys and values, each [in,
/// heads·width] with a head's columns together (or transposed, stored [out, in]). Errors: ShapeError where the three
/// differ, or the heads do not divide their columns.
template <class T>
[[nodiscard]] Matrix<T> join_query_key_value(const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v, index_t heads,
                                             WeightOrder order = WeightOrder::in_out) {
  const bool turned = order == WeightOrder::out_in;
  const Shape each = turned ? q.shape.transposed() : q.shape;
  if (k.shape != q.shape || v.shape != q.shape || heads < 1 || each.cols % heads != 0) {
    throw ShapeError("ShapeError: join_query_key_value() of " + to_string(q.shape) + ", " + to_string(k.shape) +
                     " and " + to_string(v.shape) + " for " + std::to_string(heads) +
                     " heads; they need equal shapes and as many features for each head");
  }
  const index_t width = each.cols / heads;
  Matrix<T> joined({each.rows, 3 * each.cols});
  const Matrix<T>* parts[] = {&q, &k, &v};
  for (index_t i = 0; i < joined.shape.rows; ++i) {
    for (index_t j = 0; j < joined.shape.cols; ++j) {
      const Matrix<T>& part = *parts[j / width % 3];
      const index_t col = j / (3 * width) * width + j % width;
      joined(i, j) = turned ? part(col, i) : part(i, col);
    }
  }
  return joined;
}

}  // namespace partita
