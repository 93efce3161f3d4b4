// SPDX-License-Identifier: Apache-2.0
// harness: the refusal is 2 errors instead of one
// expect: refused
#ifdef REFUSE
static_assert(false, "refused");
int x = "cascade";
#endif
