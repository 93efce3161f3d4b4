// SPDX-License-Identifier: Apache-2.0
// harness: the refusal does not say 'refused'
// expect: another
// expect: refused
#ifdef REFUSE
static_assert(false, "another");
#endif
