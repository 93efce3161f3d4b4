// SPDX-License-Identifier: Apache-2.0
// A program that has its own MPI, its own communicator and ScaLAPACK's block-cyclic arrays hands one product to
// Partita: C = A·B without a copy of any whole matrix, and the result is where the program wants it.
//   mpirun -n 6 example_mpi_legacy    any number of processes

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include "partita/comm/mpi.hpp"
#include "partita/partita.hpp"
#include "partita/redistribute/block_cyclic.hpp"

namespace {

// ---- What such a program has anyway ---------------------------------------------------------------------------------

/// ScaLAPACK's NUMROC: how many of n rows, dealt out in blocks of nb, process `place` of `places` holds.
int numroc(int n, int nb, int place, int source, int places) {
  const int distance = (places + place - source) % places;
  const int blocks = n / nb;
  const int extra = blocks % places;
  return blocks / places * nb + (distance < extra ? nb : distance == extra ? n % nb : 0);
}

/// ScaLAPACK's INDXL2G, counted from 0: the global index of a local one.
int global_index(int local, int nb, int place, int source, int places) {
  return (local / nb * places + (places + place - source) % places) * nb + local % nb;
}

/// The processes, row by row, as BLACS has them.
struct ProcessGrid {
  int rows, cols, my_row, my_col;
};

/// A dense matrix with its descriptor: DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD.
struct Array {
  std::array<int, 9> desc;
  std::vector<double> local;  // column-major
};

Array make_array(const ProcessGrid& grid, int m, int n, int mb, int nb, int row_source, int col_source) {
  const int rows = numroc(m, mb, grid.my_row, row_source, grid.rows);
  const int cols = numroc(n, nb, grid.my_col, col_source, grid.cols);
  const int lld = std::max(1, rows);
  return {{1, 0, m, n, mb, nb, row_source, col_source, lld},
          std::vector<double>(static_cast<std::size_t>(lld) * static_cast<std::size_t>(cols))};
}

/// Calls f(i, j, element) for each element that this process holds.
template <class F>
void for_each(Array& x, const ProcessGrid& grid, F f) {
  const auto& [type, context, m, n, mb, nb, row_source, col_source, lld] = x.desc;
  const int rows = numroc(m, mb, grid.my_row, row_source, grid.rows);
  const int cols = numroc(n, nb, grid.my_col, col_source, grid.cols);
  for (int j = 0; j < cols; ++j) {
    for (int i = 0; i < rows; ++i) {
      f(global_index(i, mb, grid.my_row, row_source, grid.rows),
        global_index(j, nb, grid.my_col, col_source, grid.cols),
        x.local[static_cast<std::size_t>(j) * static_cast<std::size_t>(lld) + static_cast<std::size_t>(i)]);
    }
  }
}

double a_at(int i, int k) { return (i * 7 + k * 3) % 11 - 5; }
double b_at(int k, int j) { return (k * 5 + j * 2) % 13 - 6; }

// ---- The product ----------------------------------------------------------------------------------------------------

/// C = A·B. `comm` stays the caller's: Partita duplicates it, and frees the duplicate.
void multiply(MPI_Comm comm, const ProcessGrid& processes, const Array& a, const Array& b, Array& c) {
  using namespace partita;
  using P = Summa2D<>;
  Context<EigenBackend, MpiComm> context(MpiComm{comm});
  const auto grid = make_grid<P>(context, processes.rows, processes.cols);
  const auto layout = [&](const Array& x) {
    return BlockCyclic::from_descriptor(x.desc, processes.rows, processes.cols);
  };
  const auto left = from_block_cyclic<P>(grid, layout(a), a.local.data(), a.desc[8]);
  const auto right = from_block_cyclic<P>(grid, layout(b), b.local.data(), b.desc[8]);
  to_block_cyclic(matmul(left, right), layout(c), c.local.data(), c.desc[8]);
}

/// Multiplies on the processes of `comm`; returns how many elements of C are wrong, on all of them.
long run(MPI_Comm comm) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int rows = 1;
  for (int r = 1; r * r <= size; ++r) rows = size % r == 0 ? r : rows;
  const int cols = size / rows;
  const ProcessGrid grid{rows, cols, rank / cols, rank % cols};

  constexpr int m = 203;
  constexpr int k = 150;
  constexpr int n = 97;
  Array a = make_array(grid, m, k, 16, 8, 0, cols - 1);  // three arrays with blocks and source processes of their own
  Array b = make_array(grid, k, n, 32, 5, rows - 1, 0);
  Array c = make_array(grid, m, n, 7, 12, 0, 0);
  for_each(a, grid, [](int i, int j, double& x) { x = a_at(i, j); });
  for_each(b, grid, [](int i, int j, double& x) { x = b_at(i, j); });

  multiply(comm, grid, a, b, c);

  // Every 50th element again, from the formula: sums of integers are exact.
  std::array<long, 2> mine{};  // checked, wrong
  for_each(c, grid, [&](int i, int j, double computed) {
    if ((i * n + j) % 50 != 0) return;
    double expected = 0;
    for (int l = 0; l < k; ++l) expected += a_at(i, l) * b_at(l, j);
    mine[0] += 1;
    mine[1] += computed == expected ? 0 : 1;
  });
  std::array<long, 2> all{};
  MPI_Allreduce(mine.data(), all.data(), 2, MPI_LONG, MPI_SUM, comm);
  if (rank == 0) {
    std::printf("%d x %d processes, C(%d x %d) block-cyclic: %ld elements checked, %ld wrong\n", rows, cols, m, n,
                all[0], all[1]);
  }
  return all[1];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  // The last process does something else, such as output, where there is more than one.
  MPI_Comm workers = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, size > 1 && rank == size - 1 ? MPI_UNDEFINED : 0, rank, &workers);
  long wrong = 0;
  if (workers != MPI_COMM_NULL) {
    try {
      wrong = run(workers);
    } catch (const std::exception& error) {  // MPI cannot go on without a rank: the others wait for it
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_free(&workers);
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
