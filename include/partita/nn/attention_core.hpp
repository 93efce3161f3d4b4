// SPDX-License-Identifier: Apache-2.0
// The local part of self-attention: the heads and sequences that one rank holds, forward and backward.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "partita/nn/activation.hpp"
#include "partita/nn/kernel/softmax.hpp"
#include "partita/nn/local.hpp"

namespace partita::detail {

/// What is the same for every head and sequence.
struct AttentionShape {
  index_t sequence = 1;    // tokens
  index_t head_width = 1;  // features
  bool causal = false;
  kernel::Keep keep;
};

/// Attention over a block whose rows are whole sequences and whose columns are whole heads, each with the columns of
/// its query, key and value, one after the other. Only the tokens that Pass::lengths counts are read and written. The
/// probabilities are not kept but computed again in backward: they are sequence² numbers a head and sequence, the
/// inputs 3·sequence·head_width.
template <class T, class Ctx>
class AttentionCore {
  using A = accumulate_t<T>;

 public:
  /// `block` is the global rectangle of the query-key-value block `qkv`.
  AttentionCore(Ctx& context, const AttentionShape& shape, std::span<const index_t> lengths, Block block,
                View<const T> qkv)
      : context_(context), shape_(shape), lengths_(lengths), block_(block), qkv_(qkv) {}

  /// out += softmax(Q·Kᵀ/√width)·V of every head and sequence.
  void forward(View<A> out) {
    for_each_head([&](const Head& head) {
      probabilities(head);
      // out[n, width] += weights[n, n]·v[n, width]
      gemm(1, {weights_}, {part(qkv_, head, 2)}, narrow_part(out, head));
    });
  }

  /// dqkv += the gradient of the block, given that of forward()'s result.
  void backward(View<const T> dout, View<A> dqkv) {
    for_each_head([&](const Head& head) {
      const View<const T> q = part(qkv_, head, 0), k = part(qkv_, head, 1), v = part(qkv_, head, 2);
      const View<const T> dy = narrow_part(dout, head);
      probabilities(head);
      gemm(1, {weights_, true}, {dy}, part(dqkv, head, 2));
      const View<A> dw = square<A>(2, head.tokens.size());
      context_.backend().template scale<A>(0, dw);
      gemm(1, {dy}, {v, true}, dw);
      for_each_index(context_.backend(), dw.rows,
                     kernel::SoftmaxRowGradients<T>{scores_, dw, weights_, head_mask(head)});
      gemm(scale(), {weights_}, {k}, part(dqkv, head, 0));
      gemm(scale(), {weights_, true}, {q}, part(dqkv, head, 1));
    });
  }

 private:
  /// One head over one sequence, as far as it is no padding.
  struct Head {
    Range tokens;    // local rows
    index_t number;  // local
  };

  template <class Body>
  void for_each_head(const Body& body) {
    // No rank waits for another in here.
    [[maybe_unused]] const auto turn = compute_turn(context_.comm());
    const index_t heads = qkv_.cols / (3 * shape_.head_width);
    for (index_t row = 0; row < qkv_.rows; row += shape_.sequence) {
      const index_t length = lengths_.empty() ? shape_.sequence : lengths_[sequence_at(row)];
      for (index_t head = 0; head < heads && length > 0; ++head) body(Head{{row, row + length}, head});
    }
  }
  [[nodiscard]] std::size_t sequence_at(index_t row) const {
    return static_cast<std::size_t>((block_.rows.begin + row) / shape_.sequence);
  }

  /// Of a head's three parts of the query-key-value block: 0 queries, 1 keys, 2 values.
  template <class U>
  [[nodiscard]] View<U> part(View<U> qkv, const Head& head, index_t which) const {
    const index_t begin = (3 * head.number + which) * shape_.head_width;
    return qkv.sub({head.tokens, {begin, begin + shape_.head_width}});
  }
  /// Of a block with one part a head.
  template <class U>
  [[nodiscard]] View<U> narrow_part(View<U> block, const Head& head) const {
    const index_t begin = head.number * shape_.head_width;
    return block.sub({head.tokens, {begin, begin + shape_.head_width}});
  }

  /// Sets scores_ to the probabilities of the head, and weights_ to what multiplies the values.
  void probabilities(const Head& head) {
    const index_t n = head.tokens.size();
    scores_ = square<A>(0, n);
    weights_ = weights_beside(scores_);
    context_.backend().template scale<A>(0, scores_);
    gemm(scale(), {part(qkv_, head, 0)}, {part(qkv_, head, 1), true}, scores_);
    for_each_index(context_.backend(), n, kernel::SoftmaxRows<T>{scores_, weights_, head_mask(head)});
  }
  /// The probabilities themselves, where nothing tells the two apart.
  [[nodiscard]] View<T> weights_beside(View<A> scores) {
    if constexpr (std::is_same_v<T, A>) {
      if (shape_.keep.rate == 0) return scores;
    }
    return square<T>(1, scores.rows);
  }
  [[nodiscard]] kernel::ScoreMask head_mask(const Head& head) const {
    const index_t number = block_.cols.begin / (3 * shape_.head_width) + head.number;
    return {shape_.causal, shape_.keep, block_.rows.begin + head.tokens.begin, number * shape_.sequence};
  }

  [[nodiscard]] A scale() const { return static_cast<A>(1 / std::sqrt(static_cast<double>(shape_.head_width))); }
  void gemm(A alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<A> out) {
    context_.backend().template gemm<T>(alpha, a, b, out);
  }
  /// Scratch; products, which use the same slots, are not under way.
  template <class U>
  [[nodiscard]] View<U> square(int slot, index_t n) {
    return View<U>(context_.template workspace<U>(slot, n * n), Shape{n, n});
  }

  Ctx& context_;
  AttentionShape shape_;
  std::span<const index_t> lengths_;
  Block block_;
  View<const T> qkv_;
  View<A> scores_;
  View<T> weights_;
};

}  // namespace partita::detail
