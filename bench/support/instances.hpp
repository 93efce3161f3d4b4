// SPDX-License-Identifier: Apache-2.0
// The executors of the products that benchmarks run among threads, compiled once in instances.cpp.
#pragma once

#include "backend.hpp"

namespace bench {
using ThreadRank = RankContext<partita::ThreadComm>;
}  // namespace bench

extern PARTITA_INSTANTIATE_PRODUCT(float, bench::ThreadRank);
extern PARTITA_INSTANTIATE_PRODUCT(double, bench::ThreadRank);
