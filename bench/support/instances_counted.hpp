// SPDX-License-Identifier: Apache-2.0
// The executors of products whose traffic is counted, compiled once in instances_counted.cpp.
#pragma once

#include "host.hpp"

extern PARTITA_INSTANTIATE_PRODUCT(float, bench::CountedContext<partita::ThreadComm>);
extern PARTITA_INSTANTIATE_PRODUCT(double, bench::CountedContext<partita::ThreadComm>);
#if BENCH_MPI
extern PARTITA_INSTANTIATE_PRODUCT(float, bench::CountedContext<partita::MpiComm>);
extern PARTITA_INSTANTIATE_PRODUCT(double, bench::CountedContext<partita::MpiComm>);
#endif
