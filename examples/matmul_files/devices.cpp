// SPDX-License-Identifier: Apache-2.0
// The products of partita-matmul among ranks that are threads with a GPU each.
#include "devices.hpp"

namespace matmul_files {

MATMUL_FILES_PRODUCTS(, DeviceRank);

}  // namespace matmul_files
