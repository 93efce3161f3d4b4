// SPDX-License-Identifier: Apache-2.0
// The products of partita-matmul and partita-demo among ranks that are MPI processes.
#include "processes.hpp"

namespace matmul_files {

MATMUL_FILES_PRODUCTS(, HostRank<MpiComm>);

}  // namespace matmul_files
