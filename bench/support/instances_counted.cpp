// SPDX-License-Identifier: Apache-2.0
#include "instances_counted.hpp"

PARTITA_INSTANTIATE_PRODUCT(float, bench::CountedContext<partita::ThreadComm>);
PARTITA_INSTANTIATE_PRODUCT(double, bench::CountedContext<partita::ThreadComm>);
#if BENCH_MPI
PARTITA_INSTANTIATE_PRODUCT(float, bench::CountedContext<partita::MpiComm>);
PARTITA_INSTANTIATE_PRODUCT(double, bench::CountedContext<partita::MpiComm>);
#endif
