// SPDX-License-Identifier: Apache-2.0
// Refused: a residual connection around a layer whose output lies otherwise than its input.
// expect: Residual: a layer's output has another partition than its input, to be added to
// expect: layers_meet
// expect: feed<output<RowsOver<>, ColsOver<Tp>>, input<RowsOver<>, ColsOver<>>>
#include "partita/nn/linear.hpp"
#include "partita/nn/residual.hpp"
#include "partita/partita.hpp"

using namespace partita;

template <class Weight, class Out>
using Layer4 = Linear<float, Replicated<4>, Weight, Out, ThreadContext>;
using X = Activation<float, Replicated<4>, ThreadContext>;

auto valid(Residual<Layer4<Replicated<4>, Replicated<4>>>& layer, const X& x) { return layer.forward(x); }
#ifdef REFUSE
auto refused(Residual<Layer4<ColumnShard<4>, ColumnShard<4>>>& layer, const X& x) { return layer.forward(x); }
#endif
