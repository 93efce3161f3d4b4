// SPDX-License-Identifier: Apache-2.0
// The README's first lines: four ranks multiply two matrices on a 2×2 grid.

#include <cstdio>

#include "partita/partita.hpp"

int main() {
  partita::launch_threads(4, [](partita::ThreadComm& comm) {
    partita::ThreadContext ctx(std::move(comm));
    auto grid = partita::make_grid<partita::Summa2D<2>>(ctx);
    auto a = partita::random_uniform<float, partita::Summa2D<2>>(grid, {1000, 700}, /*seed=*/1);
    auto b = partita::random_uniform<float, partita::Summa2D<2>>(grid, {700, 500}, /*seed=*/2);
    auto c = partita::matmul(a, b);                       // SUMMA: panels move, C stays
    auto g = partita::matmul(partita::transposed(a), c);  // another algorithm, from the types alone
    if (ctx.rank() == 0) std::puts(partita::explain(partita::transposed(a), c).c_str());
    static_assert(std::is_same_v<decltype(g)::partition, partita::Summa2D<2>>);
  });
}
