// SPDX-License-Identifier: Apache-2.0
// harness: passes
// expect: pair<A<1>> [is]; 'refused'
template <int N>
struct A {};
template <class T>
struct pair {
  static_assert(sizeof(T) == 0, "pair<A<1>>   [is]; refused");
};
#ifdef REFUSE
pair<A<1>> p;
#endif
