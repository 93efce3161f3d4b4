// SPDX-License-Identifier: Apache-2.0
// Everything that needs only Eigen and threads. Of their own: backend/blas.hpp, comm/mpi.hpp, comm/checked.hpp,
// matmul/across.hpp and redistribute/block_cyclic.hpp.
#pragma once

#include "partita/backend/eigen.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/self.hpp"
#include "partita/comm/thread.hpp"
#include "partita/context.hpp"
#include "partita/grid/axis.hpp"
#include "partita/matmul/explain.hpp"
#include "partita/matmul/matmul.hpp"
#include "partita/partition/policies.hpp"
#include "partita/redistribute/redistribute.hpp"
#include "partita/tensor/create.hpp"
#include "partita/tensor/from_blocks.hpp"
#include "partita/tensor/gather.hpp"
#include "partita/tensor/npy.hpp"
#include "partita/tensor/pending.hpp"
#include "partita/tensor/to.hpp"

namespace partita {

/// A rank that is a thread and computes with Eigen.
using ThreadContext = Context<EigenBackend, ThreadComm>;

}  // namespace partita

#ifdef PARTITA_COMPILED_KERNELS
// Instantiated in the library partita::kernels.
extern PARTITA_INSTANTIATE_PRODUCT(float, partita::ThreadContext);
extern PARTITA_INSTANTIATE_PRODUCT(double, partita::ThreadContext);
extern PARTITA_INSTANTIATE_PRODUCT(std::complex<float>, partita::ThreadContext);
extern PARTITA_INSTANTIATE_PRODUCT(std::complex<double>, partita::ThreadContext);
#endif
