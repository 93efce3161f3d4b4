// SPDX-License-Identifier: Apache-2.0
// CountingComm: the laws, its figures, and agreement with what ThreadComm counts of the memory it touches.
#include "partita/comm/counting.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/self.hpp"

namespace partita {
namespace {

TEST_CASE("CountingComm obeys the communicator laws, and agrees with the memory touched") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    CAPTURE(ranks);
    launch_threads(ranks, [](ThreadComm base) {
      CountingComm comm(std::move(base));
      laws::check_communicator(comm);
      CHECK(comm.traffic() == comm.base().traffic());
      CHECK((comm.size() == 1 || comm.traffic().elements > 0));
    });
  }
}

TEST_CASE("CountingComm over SelfComm counts nothing") {
  CountingComm comm{SelfComm()};
  laws::check_communicator(comm);
  CHECK(comm.traffic() == Traffic{});
}

template <class C, class F>
Traffic counted(C& comm, F call) {
  const Traffic before = comm.traffic();
  call();
  return comm.traffic() - before;
}

TEST_CASE("CountingComm: the figures of each operation on 3 ranks") {
  launch_threads(3, [](ThreadComm base) {
    CountingComm comm(std::move(base));
    const int rank = comm.rank();
    std::array<double, 8> a{};
    std::array<double, 8> b{};
    const View<double> in = row_view(a.data(), 5);
    const View<double> out = row_view(b.data(), 5);
    const index_t double_size = sizeof(double);
    const auto is = [&](Traffic t, index_t messages, index_t elements) {
      CHECK(t == Traffic{messages, elements, elements * double_size});
    };
    is(counted(comm, [&] { comm.broadcast(out, 1).wait(); }), rank == 1 ? 0 : 1, rank == 1 ? 0 : 5);
    is(counted(comm, [&] { comm.reduce(in, out, 2).wait(); }), rank == 2 ? 0 : 1, rank == 2 ? 0 : 5);
    // Chunks of 5 elements are 2, 2, 1.
    is(counted(comm, [&] { comm.all_reduce(in, out).wait(); }), 4, rank == 2 ? 8 : 6);
    // Chunks of 2 elements are 1, 1, 0: an empty chunk is no message.
    is(counted(comm, [&] { comm.all_reduce(row_view(a.data(), 2), row_view(b.data(), 2)).wait(); }), rank == 2 ? 4 : 2,
       rank == 2 ? 4 : 2);
    const std::vector<Block> blocks{{{0, 1}, {0, 4}}, {{0, 1}, {4, 4}}, {{0, 1}, {4, 5}}};
    const View<double> part = out.sub(blocks[static_cast<std::size_t>(rank)]);
    const std::array<index_t, 3> messages{1, 2, 1};
    const std::array<index_t, 3> elements{1, 5, 4};
    const auto r = static_cast<std::size_t>(rank);
    is(counted(comm, [&] { comm.reduce_scatter(in, part, blocks).wait(); }), messages[r], elements[r]);
    is(counted(comm, [&] { comm.all_gather(part, out, blocks).wait(); }), messages[r], elements[r]);
    is(counted(comm,
               [&] {
                 auto panel = comm.broadcast_panel(in, out, 0);
                 panel.wait();
                 panel.release();
                 comm.drain();
               }),
       rank == 0 ? 0 : 1, rank == 0 ? 0 : 5);
    is(counted(comm,
               [&] {
                 if (rank == 0) comm.send(in, 2, 0).wait();
                 if (rank == 2) comm.recv(out, 0, 0).wait();
                 static_cast<void>(comm.agree(rank));
                 comm.barrier();
               }),
       rank == 2 ? 1 : 0, rank == 2 ? 5 : 0);
    CHECK(comm.traffic() == comm.base().traffic());
  });
}

/// One random operation, the same on all ranks; `random` is in the same state on all of them.
template <class T, class C>
void random_operation(C& comm, std::mt19937& random) {
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int size = comm.size();
  const index_t rows = pick(4);
  const index_t cols = pick(9);
  const int root = pick(size);
  laws::Strided<T> in(rows, cols);
  laws::Strided<T> out(rows, cols, 1);
  in.fill(comm.rank());
  const std::vector<Block> blocks = laws::column_blocks(size, rows, pick(4));
  laws::Strided<T> whole(rows, blocks.back().cols.end);
  const Block own = blocks[static_cast<std::size_t>(comm.rank())];
  laws::Strided<T> part(rows, own.cols.size());
  switch (pick(7)) {
    case 0:
      return comm.broadcast(out.view(), root).wait();
    case 1:
      return comm.reduce(in.view(), out.view(), root, pick(2) == 0 ? Into::overwrite : Into::accumulate).wait();
    case 2:
      return comm.all_reduce(in.view(), out.view(), ReduceOp::sum).wait();
    case 3:
      return comm.reduce_scatter(whole.view(), part.view(), blocks).wait();
    case 4:
      return comm.all_gather(part.view(), whole.view(), blocks).wait();
    case 5:
      return laws::check_exchange<T>(comm, cols);
    default: {
      auto panel = comm.broadcast_panel(in.view(), out.view(), root);
      panel.wait();
      panel.release();
      comm.drain();
    }
  }
}

TEST_CASE("CountingComm and ThreadComm count the same for random sequences, sub-communicators included") {
  for (const int ranks : {2, 3, 5}) {
    launch_threads(ranks, [](ThreadComm base) {
      CountingComm comm(std::move(base));
      std::mt19937 random(17);
      std::optional<CountingComm<ThreadComm>> part = comm.split(comm.rank() % 2, 0);
      for (int i = 0; i < 300; ++i) {
        random_operation<float>(comm, random);
        std::mt19937 own(static_cast<unsigned>(i * 2 + comm.rank() % 2));
        random_operation<std::complex<double>>(*part, own);
      }
      CHECK(comm.traffic() == comm.base().traffic());
      CHECK(comm.traffic() == part->traffic());
    });
  }
}

}  // namespace
}  // namespace partita
