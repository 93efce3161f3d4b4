// SPDX-License-Identifier: Apache-2.0
// harness: the refusal is more than 14 lines long
// expect: no matching function for call to f
struct Argument {};
void f(char*);
void f(short*);
void f(int*);
void f(long*);
void f(float*);
void f(double*);
#ifdef REFUSE
int value = (f(Argument{}), 0);
#endif
