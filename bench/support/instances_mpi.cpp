// SPDX-License-Identifier: Apache-2.0
#include "instances_mpi.hpp"

PARTITA_INSTANTIATE_PRODUCT(float, bench::MpiRank);
PARTITA_INSTANTIATE_PRODUCT(double, bench::MpiRank);
