// SPDX-License-Identifier: Apache-2.0
// MpiComm: the laws, with and without shared memory and with short chunks; sums, chunks, failures seen from inside.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "mpi_main.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/thread/sum.hpp"

using namespace partita;
using namespace partita::test;

namespace {

MpiComm make(std::size_t arena, index_t chunk = index_t{1} << 30, int ranks_per_node = 0) {
  MpiOptions options = test_options();
  options.ranks_per_node = ranks_per_node;
  options.arena = arena;
  options.chunk = chunk;
  return MpiComm(mpi_world().native(), options);
}

/// Every other rank calls tell(this rank).
void wait_for_the_others() {
  MpiComm& world = mpi_world();
  for (int rank = 0; rank < world.size(); ++rank) {
    std::int64_t word = 0;
    if (rank != world.rank()) world.recv(row_view(&word, 1), rank, 0).wait();
  }
}
void tell(int rank) {
  std::int64_t word = 0;
  mpi_world().send(row_view(&word, 1), rank, 0).wait();
}

}  // namespace

TEST_CASE("MpiComm obeys the communicator laws") { laws::check_communicator(mpi_world()); }

TEST_CASE("MpiComm obeys the laws without shared memory") {
  MpiComm comm = make(0);
  laws::check_communicator(comm);
  CHECK(comm.statistics().panels_in_place == 0);
  if (comm.size() > 1) CHECK(comm.statistics().panels_copied > 0);
}

TEST_CASE("MpiComm obeys the laws with messages cut to 4 elements, and with a window that is always full") {
  for (const std::size_t arena : {std::size_t{0}, std::size_t{1} << 16, std::size_t{64}}) {
    MpiComm comm = make(arena, 4);
    laws::check_communicator(comm);
  }
}

TEST_CASE("MpiComm obeys the laws over several nodes, of one rank and more, even and uneven") {
  for (int ranks_per_node = 1; ranks_per_node <= 3; ++ranks_per_node) {
    for (const std::size_t arena : {std::size_t{1} << 20, std::size_t{64}}) {
      MpiComm comm = make(arena, 100, ranks_per_node);
      laws::check_communicator(comm);
      auto part = comm.split(comm.rank() % 3 == 1 ? 0 : 1, -comm.rank());  // nodes lose members, and order
      laws::check_communicator(*part);
      if (comm.size() > ranks_per_node) CHECK(comm.statistics().panels_copied > 0);
    }
  }
}

TEST_CASE("a count over MpiComm sees what MpiComm moves") {
  CountingComm<MpiComm> comm(make(std::size_t{1} << 20));
  laws::check_communicator(comm);
  CHECK(comm.traffic() == comm.base().traffic());
}

TEST_CASE("a split of a split has its own messages, panels and order") {
  MpiComm& world = mpi_world();
  auto part = world.split(world.rank() % 2, -world.rank());
  REQUIRE(part.has_value());
  laws::check_communicator(*part);
}

TEST_CASE("O01: messages of 0 to 10 elements with at most 4 in one take 0, 1, 1, 1, 2, 2, 3") {
  MpiComm comm = make(0, 4);
  const int rank = comm.rank();
  const int size = comm.size();
  const std::array<std::pair<index_t, index_t>, 7> cases{{{0, 0}, {1, 1}, {3, 1}, {4, 1}, {5, 2}, {8, 2}, {10, 3}}};
  const auto fill = [](std::vector<double>& x, index_t begin) {
    std::iota(x.begin(), x.end(), static_cast<double>(begin));
  };
  for (const auto& [n, chunks] : cases) {
    CAPTURE(n);
    const auto count = static_cast<std::size_t>(n);
    const auto peers = static_cast<std::size_t>(size);
    std::vector<double> x(count);
    const auto holds = [&](const std::vector<double>& v, double begin, double factor) {
      bool right = true;
      for (std::size_t i = 0; i < v.size(); ++i) right = right && v[i] == (begin + static_cast<double>(i)) * factor;
      return right;
    };
    for (int root = 0; root < size; ++root) {
      fill(x, rank == root ? 100 : 0);
      MpiStatistics before = comm.statistics();
      comm.broadcast(row_view(x.data(), n), root).wait();
      CHECK(holds(x, 100, 1));
      CHECK(comm.statistics().broadcasts - before.broadcasts == (size > 1 ? chunks : 0));

      std::vector<double> sum(count, -1);
      fill(x, 7);
      before = comm.statistics();
      comm.reduce(row_view(x.data(), n), row_view(sum.data(), n), root).wait();
      if (rank == root) CHECK(holds(sum, 7, size));
      CHECK(comm.statistics().sends - before.sends == (rank == root ? 0 : chunks));
      CHECK(comm.statistics().receives - before.receives == (rank == root ? (size - 1) * chunks : 0));
    }
    // To the next rank, from the one before.
    std::vector<double> got(count, -1);
    fill(x, rank);
    MpiStatistics before = comm.statistics();
    auto sent = comm.send(row_view(x.data(), n), (rank + 1) % size, 3);
    comm.recv(row_view(got.data(), n), (rank + size - 1) % size, 3).wait();
    sent.wait();
    CHECK(holds(got, (rank + size - 1) % size, 1));
    CHECK(comm.statistics().sends - before.sends == chunks);
    CHECK(comm.statistics().receives - before.receives == chunks);

    // n elements from and to each rank.
    std::vector<double> all(count * peers, -1);
    std::vector<Block> blocks;
    for (int r = 0; r < size; ++r) blocks.push_back({{0, 1}, {r * n, (r + 1) * n}});
    fill(x, rank * n);
    const View<double> whole = row_view(all.data(), n * size);
    before = comm.statistics();
    comm.all_gather(row_view(x.data(), n), whole, std::span<const Block>(blocks)).wait();
    CHECK(holds(all, 0, 1));
    CHECK(comm.statistics().sends - before.sends == (size - 1) * chunks);
    CHECK(comm.statistics().receives - before.receives == (size - 1) * chunks);

    before = comm.statistics();
    fill(all, 0);
    comm.reduce_scatter(whole, row_view(x.data(), n), std::span<const Block>(blocks)).wait();
    CHECK(holds(x, static_cast<double>(rank * n), size));
    CHECK(comm.statistics().sends - before.sends == (size - 1) * chunks);

    before = comm.statistics();
    std::vector<View<const double>> sends;
    std::vector<View<double>> receives;
    std::vector<double> exchanged(count * peers, -1);
    for (int r = 0; r < size; ++r) {
      sends.push_back(whole.sub(blocks[static_cast<std::size_t>(rank)]));
      receives.push_back(row_view(exchanged.data(), n * size).sub(blocks[static_cast<std::size_t>(r)]));
    }
    comm.all_to_all_v(std::span<const View<const double>>(sends), std::span<const View<double>>(receives)).wait();
    CHECK(holds(exchanged, 0, 1));
    CHECK(comm.statistics().receives - before.receives == (size - 1) * chunks);

    // Chunks of n·size elements, n for each rank, twice.
    before = comm.statistics();
    fill(all, 0);
    comm.all_reduce(whole, whole).wait();
    CHECK(holds(all, 0, size));
    CHECK(comm.statistics().sends - before.sends == 2 * (size - 1) * chunks);
  }
}

TEST_CASE("D01: sums are those of the rank order, on all ranks and on each run") {
  MpiComm& comm = mpi_world();
  const int size = comm.size();
  if (size == 4) {
    const std::array<float, 4> parts{1e8F, 1.0F, -1e8F, 1.0F};
    float x = parts[static_cast<std::size_t>(comm.rank())];
    comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
    CHECK(x == 1.0F);
  }
  // All contributions are known on all ranks, so each computes what threads would: the same additions in rank order.
  std::mt19937 random(4711);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<std::vector<float>> parts(static_cast<std::size_t>(size), std::vector<float>(1000));
  for (auto& part : parts) {
    for (float& v : part) v = values(random) * (random() % 7 == 0 ? 1e6F : 1.0F);
  }
  std::vector<float> wanted(1000);
  detail::combine_range<float>(
      {0, 1000}, ReduceOp::sum, Into::overwrite, size,
      [&](int r) { return View<const float>(parts[static_cast<std::size_t>(r)].data(), 1, 1000, 1000); }, 1,
      [&](int) { return row_view(wanted.data(), 1000); });
  const auto& own = parts[static_cast<std::size_t>(comm.rank())];
  std::vector<float> sum(1000);
  const int repeats = size > 4 ? 50 : 250;
  int different = 0;
  for (int i = 0; i < repeats; ++i) {
    if (i % size == comm.rank() && i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
    std::fill(sum.begin(), sum.end(), 0.0F);
    comm.all_reduce(row_view(own.data(), 1000), row_view(sum.data(), 1000)).wait();
    if (std::memcmp(sum.data(), wanted.data(), sum.size() * sizeof(float)) != 0) ++different;
  }
  CHECK(different == 0);
  if (comm.rank() == size - 1) std::copy(own.begin(), own.end(), sum.begin());
  comm.reduce(row_view(own.data(), 1000), row_view(sum.data(), 1000), size - 1).wait();
  if (comm.rank() == size - 1) CHECK(std::memcmp(sum.data(), wanted.data(), sum.size() * sizeof(float)) == 0);
}

TEST_CASE("a long sum goes in slices, and equals the sum of the rank order") {
  MpiComm& comm = mpi_world();
  const index_t n = 700001;  // three slices of double, the last one short
  std::vector<double> x(static_cast<std::size_t>(n));
  std::vector<double> sum(x.size());
  const auto part = [](int r, index_t i) { return 1.0 / static_cast<double>(i % 1000 + 3 * r + 1); };
  for (index_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = part(comm.rank(), i);
  comm.reduce(row_view(x.data(), n), row_view(sum.data(), n), 0).wait();
  comm.all_reduce(row_view(x.data(), n), row_view(x.data(), n)).wait();
  index_t wrong = 0;
  for (index_t i = 0; i < n; ++i) {
    double wanted = part(0, i);
    for (int r = 1; r < comm.size(); ++r) wanted += part(r, i);
    if (x[static_cast<std::size_t>(i)] != wanted) ++wrong;
    if (comm.rank() == 0 && sum[static_cast<std::size_t>(i)] != wanted) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("panels of allocated memory are read in place, others through one copy in the window") {
  MpiComm comm = make(std::size_t{1} << 20);
  if (comm.size() == 1) return;
  for (int r = 0; r < comm.size(); ++r) REQUIRE(comm.world()->node_of(r) == 0);
  const Memory block = comm.allocate(8000);
  const View<double> whole(reinterpret_cast<double*>(block.get()), 20, 50, 50);
  const View<double> part = whole.sub({{3, 10}, {5, 20}});
  std::vector<double> buffer(7 * 15, -1);
  std::vector<double> plain(7 * 15, 5);
  const View<double> into(buffer.data(), Shape{7, 15});
  for (int root = 0; root < comm.size(); ++root) {
    for (index_t i = 0; i < part.rows; ++i) {
      for (index_t j = 0; j < part.cols; ++j) part(i, j) = static_cast<double>(root * 1000 + i * 100 + j);
    }
    const MpiStatistics before = comm.statistics();
    auto panel = comm.broadcast_panel(part, into, root);
    panel.wait();
    CHECK(panel.view()(6, 14) == root * 1000 + 614.0);
    CHECK(panel.view().ld == 50);
    CHECK((comm.rank() == root) == (panel.view().data == part.data));
    CHECK(buffer[0] == -1.0);
    CHECK(comm.statistics().panels_in_place - before.panels_in_place == (comm.rank() == root ? 0 : 1));
    CHECK(comm.statistics().loans_staged == before.loans_staged);
    panel.release();
    comm.drain();
    auto staged = comm.broadcast_panel(View<double>(plain.data(), Shape{7, 15}), into, root);
    staged.wait();
    CHECK(staged.view()(6, 14) == 5.0);
    CHECK(comm.statistics().loans_staged - before.loans_staged == (comm.rank() == root ? 1 : 0));
    staged.release();
    comm.drain();
  }
}

TEST_CASE("sums and gathers run in the members' blocks, or in copies in the window, or by messages") {
  for (const std::size_t arena : {std::size_t{1} << 20, std::size_t{1} << 15}) {
    MpiComm comm = make(arena);
    const int size = comm.size();
    if (size == 1) return;
    const index_t n = 6000;  // 48,000 bytes: more than the smaller window holds
    const Memory shared = comm.allocate(static_cast<std::size_t>(n) * sizeof(double));
    std::vector<double> plain(static_cast<std::size_t>(n));
    for (double* const data : {reinterpret_cast<double*>(shared.get()), plain.data()}) {
      const MpiStatistics before = comm.statistics();
      const auto sum_of = [size](index_t i) { return static_cast<double>(size * (size - 1) / 2 + size * i); };
      for (index_t i = 0; i < n; ++i) data[i] = static_cast<double>(comm.rank() + i);
      comm.all_reduce(row_view(data, n), row_view(data, n)).wait();
      CHECK(data[n - 1] == sum_of(n - 1));
      CHECK(data[0] == sum_of(0));
      const bool in_place = arena > std::size_t{1} << 15;
      CHECK(comm.statistics().meetings_in_place - before.meetings_in_place == (in_place ? 1 : 0));
      CHECK(comm.statistics().meetings_by_messages - before.meetings_by_messages == (in_place ? 0 : 1));
    }
  }
}

TEST_CASE("more panels than slots, held and released in any order, lent by any rank") {
  MpiComm comm = make(std::size_t{1} << 20);
  const int size = comm.size();
  const Memory block = comm.allocate(4096);
  auto* values = reinterpret_cast<std::int64_t*>(block.get());
  for (int i = 0; i < 512; ++i) values[i] = comm.rank() * 1000 + i;
  std::int64_t buffer = 0;
  std::mt19937 roots(99);  // the same on all ranks
  std::mt19937 own(static_cast<unsigned>(comm.rank() + 1));
  struct Held {
    MpiPanel<std::int64_t> panel;
    std::int64_t wanted;
    int number;
  };
  std::vector<Held> held;
  bool right = true;
  const auto let_go = [&](std::size_t i) {
    held[i].panel.wait();
    right = right && held[i].panel.view()(0, 0) == held[i].wanted;
    held[i] = std::move(held.back());
    held.pop_back();
  };
  for (int k = 0; k < 3000; ++k) {
    const int root = static_cast<int>(roots() % static_cast<unsigned>(size));
    const int at = static_cast<int>(roots() % 512);
    for (std::size_t i = held.size(); i-- > 0;) {
      if (held[i].number + 64 <= k) let_go(i);
    }
    held.push_back({comm.broadcast_panel(row_view(values + at, 1), row_view(&buffer, 1), root), root * 1000 + at, k});
    while (held.size() > 55) let_go(own() % held.size());
  }
  while (!held.empty()) let_go(own() % held.size());
  CHECK(right);
  comm.drain();
  comm.barrier();
  if (size == 1) return;
  // One that is held too long is refused before anything is begun.
  auto old = comm.broadcast_panel(row_view(values, 1), row_view(&buffer, 1), 0);
  for (int k = 1; k < 64; ++k) comm.broadcast_panel(row_view(values, 1), row_view(&buffer, 1), 0).wait();
  if (comm.rank() != 0) {
    CHECK_THROWS_AS(static_cast<void>(comm.broadcast_panel(row_view(values, 1), row_view(&buffer, 1), 0)),
                    ArgumentError);
  }
  old.release();
  comm.broadcast_panel(row_view(values, 1), row_view(&buffer, 1), 0).wait();
  comm.drain();
  comm.barrier();
}

TEST_CASE("tags outside MPI's are refused, and the user's communicator is left alone") {
  MpiComm& comm = mpi_world();
  double x = 0;
  CHECK_THROWS_AS(comm.send(row_view(&x, 1), 0, -1).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.recv(row_view(&x, 1), 0, comm.last_tag() + 1).wait(), ArgumentError);
  CHECK(comm.last_tag() >= 16383);
  int same = MPI_UNEQUAL;
  MPI_Comm_compare(MPI_COMM_WORLD, comm.native(), &same);
  CHECK(same == MPI_CONGRUENT);
  CHECK_THROWS_AS(MpiComm(MPI_COMM_WORLD, MpiOptions{.chunk = 0}), ArgumentError);
  const MpiRuntime second;
  CHECK_FALSE(second.owns());
  CHECK(second.threads() >= MpiThreads::funneled);
}

TEST_CASE("PeerFailed names the rank that failed, in waits and in later calls; a new communicator works") {
  for (int failing = 0; failing < mpi_world().size(); ++failing) {
    MpiComm comm = make(std::size_t{1} << 16);
    auto part = comm.split(0, -comm.rank());
    mpi_world().barrier();
    if (comm.rank() == failing) {
      comm.abort("it was asked to");
      CHECK_THROWS_AS(comm.barrier(), PeerFailed);
    } else {
      int origin = -1;
      double x = 1;
      double buffer = 0;
      try {
        if (comm.rank() % 2 == 0) {
          part->all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
        } else {
          auto panel = comm.broadcast_panel(row_view(&x, 1), row_view(&buffer, 1), failing);
          panel.wait();
        }
      } catch (const PeerFailed& error) {
        origin = error.origin;
        CHECK(std::string(error.what()).find("it was asked to") != std::string::npos);
      }
      CHECK(origin == failing);
    }
    CHECK_THROWS_AS(static_cast<void>(part->agree(1)), PeerFailed);
    CHECK_THROWS_AS(comm.drain(), PeerFailed);
  }
  CHECK(mpi_world().agree(mpi_world().rank()) == mpi_world().size() - 1);
}

TEST_CASE("a wait that nobody answers ends at its deadline, and fails the peers") {
  if (mpi_world().size() == 1) return;
  MpiOptions options = test_options();
  if (mpi_world().rank() == 0) options.deadline = std::chrono::seconds(2);  // also for making the communicator
  MpiComm comm(mpi_world().native(), options);
  mpi_world().barrier();
  double x = 0;
  const double begun = MPI_Wtime();
  if (comm.rank() == 0) {
    CHECK_THROWS_AS(comm.recv(row_view(&x, 1), 1, 5).wait(), TimeoutError);
    CHECK(MPI_Wtime() - begun >= 2);
  } else {
    CHECK_THROWS_AS(comm.barrier(), PeerFailed);
  }
  CHECK(MPI_Wtime() - begun < 20);  // the peers' own deadline is a minute
  mpi_world().barrier();
}

TEST_CASE("a split that a rank does not enter ends at its deadline, and the rank that comes late finds it dead") {
  if (mpi_world().size() == 1) return;
  for (const std::size_t arena : {std::size_t{0}, std::size_t{1} << 16}) {
    MpiOptions options = test_options();
    options.arena = arena;
    if (mpi_world().rank() != 1) options.deadline = std::chrono::seconds(2);
    MpiComm comm(mpi_world().native(), options);
    mpi_world().barrier();
    if (comm.rank() == 1) {
      wait_for_the_others();
      CHECK_THROWS_AS(static_cast<void>(comm.split(0, 0)), PeerFailed);
    } else {
      bool typed = false;
      try {
        static_cast<void>(comm.split(0, 0));
      } catch (const TimeoutError&) {
        typed = true;
      } catch (const PeerFailed&) {  // another one's deadline came first
        typed = true;
      }
      CHECK(typed);
      tell(1);
    }
    mpi_world().barrier();
  }
}

TEST_CASE("a communicator whose ranks do not all come is not made, on any of them") {
  if (mpi_world().size() == 1) return;
  MpiOptions options = test_options();
  options.deadline = std::chrono::seconds(1);
  if (mpi_world().rank() == 1) wait_for_the_others();
  bool typed = false;
  try {
    const MpiComm comm(mpi_world().native(), options);
  } catch (const TimeoutError&) {
    typed = true;
  } catch (const PeerFailed&) {
    typed = true;
  }
  CHECK(typed);
  if (mpi_world().rank() != 1) tell(1);
  mpi_world().barrier();
}

TEST_CASE("a request that is abandoned fails the peers") {
  if (mpi_world().size() == 1) return;
  MpiComm comm = make(0);
  mpi_world().barrier();
  double x = 0;
  if (comm.rank() == 1) {
    {
      [[maybe_unused]] const auto dropped = comm.recv(row_view(&x, 1), 0, 1);
    }
    CHECK_THROWS_AS(comm.barrier(), PeerFailed);
  } else {
    CHECK_THROWS_AS(comm.barrier(), PeerFailed);
  }
  mpi_world().barrier();
}

TEST_CASE("a message of another length is a ShapeError where it is seen") {
  if (mpi_world().size() == 1) return;
  for (const index_t sent : {2, 4}) {
    MpiComm comm = make(0);
    mpi_world().barrier();
    std::array<double, 4> x{};
    if (comm.rank() == 0) {
      comm.send(row_view(x.data(), sent), 1, 1).wait();
    } else if (comm.rank() == 1) {
      CHECK_THROWS_AS(comm.recv(row_view(x.data(), 3), 0, 1).wait(), ShapeError);
    }
    mpi_world().barrier();
  }
}
