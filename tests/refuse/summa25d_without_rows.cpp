// SPDX-License-Identifier: Apache-2.0
// X01: Summa25D<0, 1> is refused when it is compiled.
// expect: an axis needs an extent of at least 1, or dynamic
#include "partita/partita.hpp"

using namespace partita;

auto valid(ThreadContext& context) { return make_grid<Summa25D<1, 1>>(context); }
#ifdef REFUSE
auto refused(ThreadContext& context) { return make_grid<Summa25D<0, 1>>(context); }
#endif
