// SPDX-License-Identifier: Apache-2.0
// harness: the refusal does not say 'refused'
// expect: refused
#ifdef REFUSE
#include "no/such/header.hpp"
#endif
