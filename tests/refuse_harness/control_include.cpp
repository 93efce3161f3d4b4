// SPDX-License-Identifier: Apache-2.0
// harness: the control does not compile
// expect: no/such/header.hpp
#include "no/such/header.hpp"
