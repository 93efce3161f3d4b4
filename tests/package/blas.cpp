// SPDX-License-Identifier: Apache-2.0
// A stranger's program with the BLAS of the component.

#include <cstdio>
#include <vector>

#include "partita/backend/blas.hpp"
#include "partita/partita.hpp"

int main() {
  bool right = false;
  partita::launch_threads(2, [&](partita::ThreadComm& comm) {
    partita::Context<partita::BlasBackend, partita::ThreadComm> context(std::move(comm));
    const auto grid = partita::make_grid<partita::ColumnShard<2>>(context);
    const auto number = [](double x) { return [x](partita::index_t, partita::index_t) { return x; }; };
    const auto a = partita::from_function<double, partita::ColumnShard<2>>(grid, {3, 8}, number(2));
    const auto b = partita::from_function<double, partita::RowShard<2>>(grid, {8, 5}, number(3));
    const auto c = partita::gather(partita::matmul(a, b));
    if (context.rank() == 0) right = c.elements == std::vector<double>(15, 48.0);
  });
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
