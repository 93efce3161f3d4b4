// SPDX-License-Identifier: Apache-2.0
// Refused: operands of different scalar types.
// expect: matmul: no algorithm multiplies these operands
// expect: give_both_one_scalar<float, double>
#include "partita/partita.hpp"

using namespace partita;

template <class T>
using Tensor = DistTensor<T, Summa2D<2>, ThreadContext>;

auto valid(const Tensor<float>& a, const Tensor<float>& b) { return matmul(a, b); }
#ifdef REFUSE
auto refused(const Tensor<float>& a, const Tensor<double>& b) { return matmul(a, b); }
#endif
