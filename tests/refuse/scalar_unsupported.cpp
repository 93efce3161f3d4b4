// SPDX-License-Identifier: Apache-2.0
// Refused: a scalar that matmul does not multiply; a tensor of it is fine.
// expect: matmul: no algorithm multiplies these operands
// expect: use_float_double_complex_half_or_bfloat16_instead_of<int>
#include "partita/partita.hpp"

using namespace partita;

template <class T>
using Tensor = DistTensor<T, Summa2D<2>, ThreadContext>;

auto valid(const Tensor<bfloat16>& a, const Tensor<bfloat16>& b) { return matmul(a, b); }
Shape stored(const Tensor<int>& a) { return a.shape(); }
#ifdef REFUSE
auto refused(const Tensor<int>& a, const Tensor<int>& b) { return matmul(a, b); }
#endif
