// SPDX-License-Identifier: Apache-2.0
// The partitions that go with an activation's: of what lies along its features, along its tokens, and of gradients.
#pragma once

#include "partita/partition/partition.hpp"

namespace partita {

namespace detail {

template <class P>
struct FeaturesOf;
template <class G, class R, class C, class S>
struct FeaturesOf<Partition<G, R, C, S>> {
  using type = Partition<G, RowsOver<>, C>;
};
template <class P>
struct TokensOf;
template <class G, class R, class C, class S>
struct TokensOf<Partition<G, R, C, S>> {
  using type = Partition<G, R, ColsOver<>>;
};

template <class Value, class Tokens>
struct PendingOverTokens {
  static constexpr AxisList spread = Tokens::layout.rows;
  static constexpr Layout value{Value::layout.rows, Value::layout.cols,
                                spread.without(Value::layout.rows + Value::layout.cols).sorted()};
};

}  // namespace detail

/// Of a row of parameters that lies along the columns of P: a bias, a gain.
template <class P>
using features_of_t = typename detail::FeaturesOf<P>::type;

/// Of a column that goes with the rows of P: ids, targets, one number for each token.
template <class P>
using tokens_of_t = typename detail::TokensOf<P>::type;

/// Of the gradient of a parameter with partition Value, as a backward pass over activations with partition Tokens
/// leaves it: a pending sum over exactly the axes over which the tokens are spread and the parameter is replicated.
template <class Value, class Tokens>
using gradient_of_t =
    typename detail::PartitionOf<typename Value::grid_type, detail::PendingOverTokens<Value, Tokens>>::type;

}  // namespace partita
