// SPDX-License-Identifier: Apache-2.0
// K01 under MPI: grids made and dropped, and products on one grid, leave no communicator and no memory behind. 1000 and
// 5000 of them unless PARTITA_MPI_GRIDS and PARTITA_MPI_PRODUCTS ask for others.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mpi_main.hpp"
#include "partita/backend/eigen.hpp"
#include "partita/matmul/matmul.hpp"
#include "partita/partition/policies.hpp"
#include "partita/tensor/gather.hpp"

using namespace partita;
using namespace partita::test;

namespace {

int count_from(const char* name, int usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::atoi(text);
}

/// Bytes of this process that lie in memory.
long resident() {
  long pages = 0;
  long all = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  return pages * sysconf(_SC_PAGESIZE);
}

using MpiContext = Context<EigenBackend, MpiComm>;

double value(index_t i, index_t j) { return static_cast<double>(i + 2 * j); }

/// The corner of the product of two 4×4 matrices.
template <class Handle>
void multiply(const Handle& grid) {
  const auto a = from_function<double, Summa2D<2>>(grid, {4, 4}, value);
  const auto b = from_function<double, Summa2D<2>>(grid, {4, 4}, value);
  const auto c = matmul(a, transposed(b));
  if (grid.context().rank() == 0 && c.local()(0, 0) != 4.0 * (0 + 1 + 4 + 9)) FAIL("a product is wrong");
}

}  // namespace

TEST_CASE("K01: grids and products leave nothing behind") {
  if (mpi_world().size() != 4) return;
  const int before = MpiComm::live_communicators();
  {
    MpiContext context{MpiComm(mpi_world().native(), test_options())};
    const int of_world = MpiComm::live_communicators();
    const int grids = count_from("PARTITA_MPI_GRIDS", 1000);
    const int products = count_from("PARTITA_MPI_PRODUCTS", 5000);
    long settled = 0;
    double begun = MPI_Wtime();
    for (int i = 0; i < grids; ++i) {
      if (i == 100) settled = resident();
      const auto grid = make_grid<Summa2D<2>>(context);
      multiply(grid);
    }
    const double for_grids = MPI_Wtime() - begun;
    CHECK(MpiComm::live_communicators() == of_world);
    const long after_grids = resident();
    const auto grid = make_grid<Summa2D<2>>(context);
    begun = MPI_Wtime();
    for (int i = 0; i < products; ++i) multiply(grid);
    const double for_products = MPI_Wtime() - begun;
    const long after_products = resident();
    if (grids > 100) CHECK(after_grids - settled < (1 << 20));
    CHECK(after_products - after_grids < (1 << 20));
    if (context.rank() == 0) {
      std::printf(
          "%d grids in %.1f s, memory grew by %ld KiB after the first 100; %d products in %.1f s, %ld KiB; %d "
          "communicators live\n",
          grids, for_grids, (after_grids - settled) / 1024, products, for_products,
          (after_products - after_grids) / 1024, MpiComm::live_communicators() - of_world);
    }
  }
  CHECK(MpiComm::live_communicators() == before);
}
