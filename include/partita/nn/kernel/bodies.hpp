// SPDX-License-Identifier: Apache-2.0
// Every body that the layers run: those for which a backend of another memory has kernels.
#pragma once

#include "partita/backend/body.hpp"
#include "partita/nn/kernel/arg_max.hpp"
#include "partita/nn/kernel/cross_entropy.hpp"
#include "partita/nn/kernel/elementwise.hpp"
#include "partita/nn/kernel/functions.hpp"
#include "partita/nn/kernel/indices.hpp"
#include "partita/nn/kernel/norm.hpp"
#include "partita/nn/kernel/patches.hpp"
#include "partita/nn/kernel/rows.hpp"
#include "partita/nn/kernel/sequences.hpp"
#include "partita/nn/kernel/softmax.hpp"
#include "partita/nn/kernel/squares.hpp"
#include "partita/nn/kernel/unscale.hpp"
#include "partita/nn/kernel/update.hpp"

namespace partita::kernel {

/// Bodies on activations and parameters of T.
template <class T>
using BodiesOfScalar =
    BodyList<Apply<T, ExactGelu>, ApplySlope<T, ExactGelu>, Apply<T, TanhGelu>, ApplySlope<T, TanhGelu>, Apply<T, Relu>,
             ApplySlope<T, Relu>, Add<T>, Drop<T>, RowArgMax<T>, RowMaximum<T>, ExponentialSums<T>,
             CrossEntropyGradient<T>, LookUpRows<T, T>, LookUpRows<T, accumulate_t<T>>, AddRowsById<T>, RowSums<T>,
             RowDeviations<T>, NormalizeRows<T>, NormGradientSums<T>, NormInputGradient<T>, NormParameterGradients<T>,
             ExtractPatches<T>, PlacePatches<T>, AssembleTokens<T>, WithoutFirst<T>, AddRow<T>, SpreadRow<T>,
             SumRows<T>, SumOverSequences<T>, TakeFirst<T>, PlaceFirst<T>, TakeMean<T>, PlaceMean<T>, SoftmaxRows<T>,
             SoftmaxRowGradients<T>, Widen<T, accumulate_t<T>>>;

/// Bodies on sums, gradients and weights that an optimiser changes, in the type A that accumulates.
template <class A>
using BodiesOfSum = BodyList<KeepLargest<A>, SumLosses<A>, AddSquares<A>, Unscale<A>, SgdUpdate<A>, AdamUpdate<A>>;

/// Bodies without a scalar type.
using OtherBodies = BodyList<NegateFound, CountHits, FirstOutside, AddUp>;

}  // namespace partita::kernel
