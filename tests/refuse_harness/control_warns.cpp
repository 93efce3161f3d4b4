// SPDX-License-Identifier: Apache-2.0
// harness: the control compiles with a warning
// expect: refused
void f(int unused) {}
#ifdef REFUSE
static_assert(false, "refused");
#endif
