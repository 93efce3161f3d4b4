// SPDX-License-Identifier: Apache-2.0
// SelfComm: the laws, and what is particular to a single rank.
#include "partita/comm/self.hpp"

#include <doctest/doctest.h>

#include <array>

#include "laws/communicator_laws.hpp"

namespace partita {
namespace {

// SelfComm moves nothing between ranks, so its traffic is none: the laws ask the same of one rank.
TEST_CASE("SelfComm obeys the communicator laws") {
  SelfComm comm;
  laws::check_communicator(comm);
}

TEST_CASE("SelfComm: a panel is the block itself") {
  SelfComm comm;
  std::array<double, 6> block{1, 2, 3, 4, 5, 6};
  auto panel = comm.broadcast_panel({block.data(), 2, 2, 3}, View<double>(nullptr, 2, 2, 2), 0);
  panel.wait();
  CHECK(panel.view().data == block.data());
  CHECK(panel.view().ld == 3);
}

TEST_CASE("SelfComm: a message without its other half does not wait for ever") {
  SelfComm comm;
  double x = 1;
  double y = 0;
  CHECK_THROWS_AS(comm.recv(row_view(&x, 1), 0, 3).wait(), TimeoutError);
  // The half above is abandoned with its request: the next send does not write into it.
  auto send = comm.send(row_view(&y, 1), 0, 3);
  CHECK(x == 1);
  CHECK_THROWS_AS(send.wait(), TimeoutError);
  comm.recv(row_view(&x, 1), 0, 3).wait();
  send.wait();
  CHECK(x == 0);
  auto mismatch = comm.send(row_view(&y, 1), 0, 4);
  std::array<double, 2> two{};
  CHECK_THROWS_AS(static_cast<void>(comm.recv(row_view(two.data(), 2), 0, 4)), ShapeError);
}

TEST_CASE("SelfComm: after abort every operation throws, in what was split from it too") {
  SelfComm comm;
  std::optional<SelfComm> part = comm.split(0, 0);
  part->abort("enough");
  CHECK_THROWS_WITH_AS(comm.barrier(), "PeerFailed: rank 0 failed: enough", PeerFailed);
  CHECK_THROWS_AS(comm.drain(), PeerFailed);
}

}  // namespace
}  // namespace partita
