// SPDX-License-Identifier: Apache-2.0
// harness: it compiles with -DREFUSE
// expect: refused
int accepted;
