// SPDX-License-Identifier: Apache-2.0
#include "instances.hpp"

PARTITA_INSTANTIATE_PRODUCT(float, bench::ThreadRank);
PARTITA_INSTANTIATE_PRODUCT(double, bench::ThreadRank);
