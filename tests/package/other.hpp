// SPDX-License-Identifier: Apache-2.0
// The other unit of a stranger's program.
#pragma once

#include "partita/partita.hpp"

partita::Matrix<double> square(const partita::DistTensor<double, partita::Summa2D<2>, partita::ThreadContext>& a);
