// SPDX-License-Identifier: Apache-2.0
// The backend of tests that run on either: Eigen's, or, where PARTITA_TEST_BLAS is defined, that of the linked BLAS.
#pragma once

#ifdef PARTITA_TEST_BLAS
#include "partita/backend/blas.hpp"
#else
#include "partita/backend/eigen.hpp"
#endif

namespace partita::test {

#ifdef PARTITA_TEST_BLAS
using TestBackend = BlasBackend;
#else
using TestBackend = EigenBackend;
#endif

}  // namespace partita::test
