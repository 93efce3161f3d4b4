// SPDX-License-Identifier: Apache-2.0
// harness: it has no line '// expect: text'
#ifdef REFUSE
static_assert(false, "refused");
#endif
