// SPDX-License-Identifier: Apache-2.0
// The backend of tests that run on any: Eigen's; where PARTITA_TEST_BLAS is defined, that of the linked BLAS, with
// oneDNN for 16-bit data where PARTITA_TEST_ONEDNN is.
#pragma once

#ifdef PARTITA_TEST_BLAS
#include "partita/backend/blas.hpp"
#else
#include "partita/backend/eigen.hpp"
#endif
#ifdef PARTITA_TEST_ONEDNN
#include "partita/backend/onednn.hpp"
#endif

namespace partita::test {

#if defined(PARTITA_TEST_ONEDNN)
using TestBackend = CpuBackend<OneDnnKernel<BlasKernel>>;
#elif defined(PARTITA_TEST_BLAS)
using TestBackend = BlasBackend;
#else
using TestBackend = EigenBackend;
#endif

}  // namespace partita::test
