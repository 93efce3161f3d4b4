// SPDX-License-Identifier: Apache-2.0
// Refused: copying a tensor; it moves, and a copy is clone().
// expect: DistTensor
// expect: deleted
#include "partita/partita.hpp"

using namespace partita;

using Tensor = DistTensor<double, Summa2D<2>, ThreadContext>;

Tensor valid(Tensor& a) {
  Tensor copy = a.clone();
  Tensor moved = std::move(a);
  return moved.shape() == copy.shape() ? std::move(moved) : std::move(copy);
}
#ifdef REFUSE
Tensor refused(const Tensor& a) { return a; }
#endif
