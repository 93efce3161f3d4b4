// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads with a GPU each, in a build with TRAIN_DIGITS_NCCL.
#pragma once

#include "partita/backend/cuda.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "partita/context.hpp"

namespace train_digits {

using DeviceContext = partita::Context<partita::CudaBackend, partita::NcclComm>;

}  // namespace train_digits
