// SPDX-License-Identifier: Apache-2.0
// The backend with which every benchmark of ours computes, chosen here and nowhere else.
#pragma once

#include "noted.hpp"
#include "partita/partita.hpp"

namespace bench {

using Backend = partita::CpuBackend<NotingKernel>;

template <class Comm>
using RankContext = partita::Context<Backend, Comm>;

}  // namespace bench
