// SPDX-License-Identifier: Apache-2.0
// A repeated product allocates no memory, maps none, and makes no window and no communicator, on any rank. What MPI
// allocates within its own calls is counted apart, and shown.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "mpi_main.hpp"
#include "partita/backend/eigen.hpp"
#include "partita/context.hpp"
#include "support/repeated_products.hpp"

#include "support/allocations.hpp"

namespace {

/// Windows and communicators that this process has asked for.
int made = 0;

/// One call of MPI.
struct InMpi {
  InMpi() noexcept { ++partita::test::allocations.inside; }
  ~InMpi() { --partita::test::allocations.inside; }
  InMpi(const InMpi&) = delete;
  InMpi& operator=(const InMpi&) = delete;
};
struct Making : InMpi {
  Making() noexcept { ++made; }
};

}  // namespace

// MPI's profiling interface: what a program defines stands before the library's function of the same name.
extern "C" {
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  const InMpi call;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  const InMpi call;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  const InMpi call;
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  const InMpi call;
  return PMPI_Ibarrier(comm, request);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const InMpi call;
  return PMPI_Test(request, flag, status);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* result) {
  const Making call;
  return PMPI_Comm_split(comm, color, key, result);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* result) {
  const Making call;
  return PMPI_Comm_split_type(comm, type, key, info, result);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* result) {
  const Making call;
  return PMPI_Comm_dup(comm, result);
}
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* result, MPI_Request* request) {
  const Making call;
  return PMPI_Comm_idup(comm, result, request);
}
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* result) {
  const Making call;
  return PMPI_Comm_create(comm, group, result);
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* result) {
  const Making call;
  return PMPI_Comm_create_group(comm, group, tag, result);
}
int MPI_Win_create(void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* window) {
  const Making call;
  return PMPI_Win_create(base, size, unit, info, comm, window);
}
int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* window) {
  const Making call;
  return PMPI_Win_create_dynamic(info, comm, window);
}
int MPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window) {
  const Making call;
  return PMPI_Win_allocate(size, unit, info, comm, base, window);
}
int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window) {
  const Making call;
  return PMPI_Win_allocate_shared(size, unit, info, comm, base, window);
}
}

namespace partita::test {
namespace {

struct Way {
  const char* name;
  std::size_t arena;
  int ranks_per_node;
};

}  // namespace

TEST_CASE("a product that was done before makes and allocates nothing, in shared memory and by messages") {
  const int ranks = mpi_world().size();
  if (ranks != 2 && ranks != 4) return;
  for (const Way& way : {Way{"in shared memory", std::size_t{4} << 20, 0}, Way{"by messages", 0, 0},
                         Way{"over nodes of two ranks", std::size_t{4} << 20, 2}}) {
    const int before_context = made;
    MpiOptions world_options = test_options();
    world_options.arena = way.arena;
    world_options.ranks_per_node = way.ranks_per_node;
    Context<EigenBackend, MpiComm> context{MpiComm(mpi_world().native(), world_options)};
    CHECK(made > before_context);  // the wrappers stand before the library
    long of_mpi = 0;
    int products = 0;
    for (const PanelMove move : {PanelMove::broadcast, PanelMove::all_gather}) {
      MatmulOptions options{.panel_width = 8};
      options.panels = move;
      repeated_products(context, ranks == 4 ? 2 : 1, ranks == 4 ? 2 : 1, 1, options, [&](const char*, auto product) {
        for (int i = 0; i < 10; ++i) product();
        const Allocations before = allocations;
        const int made_before = made;
        for (int i = 0; i < 10; ++i) product();
        const Allocations after = allocations;
        INFO("product ", products, " ", std::string(way.name));
        CHECK(after.memory - before.memory == 0);
        CHECK(after.mappings - before.mappings == 0);
        CHECK(made - made_before == 0);
        of_mpi += after.foreign - before.foreign;
        products += 10;
      });
    }
    if (context.rank() == 0) {
      std::printf("%d repeated products %s: nothing made or allocated by us; MPI itself allocated %ld times\n",
                  products, way.name, of_mpi);
    }
    if (way.arena > 0 && way.ranks_per_node == 0) CHECK(of_mpi == 0);
  }
}

}  // namespace partita::test
