// SPDX-License-Identifier: Apache-2.0
// NcclComm without MPI, on the stand-ins: from the environment, and from a rendezvous.
#include "partita/comm/nccl_environment.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "support/free_port.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using test::free_port;

/// Sets variables of this process, and takes them back.
struct Environment {
  explicit Environment(const std::map<std::string, std::string>& set) : names(set) {
    for (const auto& [name, value] : names) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : names) ::unsetenv(name.c_str());
  }
  std::map<std::string, std::string> names;
};

TEST_CASE("nccl_from_environment: one process, and the errors of a place that cannot be") {
  const cuda_emulation::Fresh fresh(cuda_emulation::with(cuda_emulation::Progress::normal, 2));
  CHECK_THROWS_AS(static_cast<void>(nccl_from_environment()), ArgumentError);
  std::map<std::string, std::string> set{
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}};
  {
    const Environment one(set);
    NcclComm comm = nccl_from_environment();
    CHECK(comm.size() == 1);
    CHECK(comm.agree(3) == 3);
  }
  set["WORLD_SIZE"] = "4";
  set["LOCAL_RANK"] = "2";
  const Environment crowded(set);
  CHECK_THROWS_WITH_AS(static_cast<void>(nccl_from_environment()),
                       "ArgumentError: the environment variable LOCAL_RANK is 2, this process sees 2 devices; start at "
                       "most that many processes on a machine, or look at CUDA_VISIBLE_DEVICES",
                       ArgumentError);
}

TEST_CASE("Ranks that are threads meet as processes would, and make one communicator") {
  const cuda_emulation::Fresh fresh;
  const int port = free_port();
  cuda_emulation::on_ranks(4, [port](int rank) {
    ncclUniqueId id{};
    if (rank == 0) id = nccl_unique_id();
    const std::string bytes =
        meet({rank, 4, "localhost", port, std::chrono::seconds(10)}, std::string(id.internal, sizeof id.internal));
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    NcclComm comm(id, 4, rank);
    CHECK(comm.rank() == rank);
    CHECK(comm.agree(rank) == 3);
  });
}

}  // namespace
}  // namespace partita
