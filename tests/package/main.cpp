// SPDX-License-Identifier: Apache-2.0
// A stranger's program: multiplies, and compares with the same product made in another unit.

#include <cstdio>

#include "other.hpp"
#include "partita/partita.hpp"

int main() {
  bool equal = false;
  partita::launch_threads(4, [&](partita::ThreadComm& comm) {
    partita::ThreadContext context(std::move(comm));
    const auto grid = partita::make_grid<partita::Summa2D<2>>(context);
    const auto a = partita::random_uniform<double, partita::Summa2D<2>>(grid, {9, 9}, 1);
    const auto here = partita::gather(partita::matmul(a, a));
    const auto there = square(a);
    if (context.rank() == 0) equal = here.elements == there.elements;
  });
  std::puts(equal ? "equal" : "different");
  return equal ? 0 : 1;
}
