// SPDX-License-Identifier: Apache-2.0
// The executors of the products that benchmarks run among MPI processes, compiled once in instances_mpi.cpp.
#pragma once

#include "backend.hpp"
#include "partita/comm/mpi.hpp"

namespace bench {
using MpiRank = RankContext<partita::MpiComm>;
}  // namespace bench

extern PARTITA_INSTANTIATE_PRODUCT(float, bench::MpiRank);
extern PARTITA_INSTANTIATE_PRODUCT(double, bench::MpiRank);
