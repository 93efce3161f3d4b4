// SPDX-License-Identifier: Apache-2.0
// Refused: wrapping a column-major matrix; its transpose is what can be wrapped.
// expect: wrap(): blocks are row-major; wrap the transpose of column-major data and use transposed(tensor)
#include <Eigen/Core>

#include "partita/partita.hpp"

using namespace partita;

using RowMajor = Eigen::Matrix<double, -1, -1, Eigen::RowMajor>;
using ColumnMajor = Eigen::Matrix<double, -1, -1, Eigen::ColMajor>;
using Handle = GridHandle<Grid2D<>, ThreadContext>;

auto valid(const Handle& grid, RowMajor& m) { return wrap<Summa2D<>>(grid, {4, 4}, m); }
#ifdef REFUSE
auto refused(const Handle& grid, ColumnMajor& m) { return wrap<Summa2D<>>(grid, {4, 4}, m); }
#endif
