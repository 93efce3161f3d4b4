// SPDX-License-Identifier: Apache-2.0
// Refused: a chain in which a layer gives cut features to one that takes whole ones.
// expect: Sequential: a layer's output has another partition than the next layer takes
// expect: layers_meet
// expect: feed<output<RowsOver<>, ColsOver<Tp>>, input<RowsOver<>, ColsOver<>>>
#include "partita/nn/gelu.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/linear.hpp"
#include "partita/partita.hpp"

using namespace partita;

using Enter = Linear<float, Replicated<4>, ColumnShard<4>, ColumnShard<4>, ThreadContext>;
template <class P>
using Function = Gelu<float, P, ThreadContext>;
using X = Activation<float, Replicated<4>, ThreadContext>;

auto valid(Sequential<Enter, Function<ColumnShard<4>>>& chain, const X& x) { return chain.forward(x); }
#ifdef REFUSE
auto refused(Sequential<Enter, Function<Replicated<4>>>& chain, const X& x) { return chain.forward(x); }
#endif
