// SPDX-License-Identifier: Apache-2.0
// The products of partita-matmul and partita-demo among ranks that are threads.
#include "product.hpp"

namespace matmul_files {

MATMUL_FILES_PRODUCTS(, HostRank<ThreadComm>);

}  // namespace matmul_files
