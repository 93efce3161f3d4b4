// SPDX-License-Identifier: Apache-2.0
// harness: the control does not compile
// expect: refused
static_assert(false, "refused");
