// SPDX-License-Identifier: Apache-2.0
// One MPI communicator of a world: its members, their nodes, and the numbers of its operations.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "partita/comm/mpi/board.hpp"
#include "partita/comm/mpi/control.hpp"

namespace partita::detail {

/// Ranks on one node read each other's panels by the board of that node; it stands in the arena of the node's lowest
/// member. A board whose maker has left is kept until all its readers have.
struct MpiGroup {
  /// Collective over `made`, which it takes.
  MpiGroup(std::shared_ptr<MpiWorld> the_world, MPI_Comm made) : world(std::move(the_world)), comm(mpi_own(made)) {
    mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    find_members();
    if (world->shares_memory() && size > 1) make_board();
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  /// Collective, but for unwinding, failure and a finalised MPI: then the communicator is left to the process's end.
  ~MpiGroup() {
    board.leave();
    if (board_memory) retire(std::move(board_memory));
    if (std::uncaught_exceptions() > 0 || world->failed() || !mpi_usable()) return;
    mpi_free(comm);
  }

  [[nodiscard]] int world_rank(int member) const noexcept { return world_ranks[static_cast<std::size_t>(member)]; }
  [[nodiscard]] int node(int member) const noexcept { return world->node_of(world_rank(member)); }
  [[nodiscard]] bool near(int member) const noexcept { return node(member) == node(rank); }
  /// The segment of a member of this node.
  [[nodiscard]] std::byte* segment(int member) const noexcept {
    return world->arena()->base(world->node_rank_of(world_rank(member)));
  }

  std::shared_ptr<MpiWorld> world;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::vector<int> world_ranks;
  std::vector<int> leaders;          // the lowest member of each node
  PanelBoardHandle board;            // none where this rank is alone on its node, or without memory for it
  std::uint64_t operations = 0;      // begun so far; the same on all members
  std::uint64_t panels = 0;          // likewise
  int loans = 0;                     // panels of this rank that are not yet released
  std::uint64_t loans_on_board = 0;  // begun so far by this rank; and those that have got their slot
  std::uint64_t loans_posted = 0;

 private:
  void find_members() {
    MPI_Group own = MPI_GROUP_NULL;
    MPI_Group all = MPI_GROUP_NULL;
    mpi_check(MPI_Comm_group(comm, &own), "MPI_Comm_group");
    mpi_check(MPI_Comm_group(world->comm(), &all), "MPI_Comm_group");
    std::vector<int> members(static_cast<std::size_t>(size));
    for (int m = 0; m < size; ++m) members[static_cast<std::size_t>(m)] = m;
    world_ranks.resize(members.size());
    mpi_check(MPI_Group_translate_ranks(own, size, members.data(), all, world_ranks.data()),
              "MPI_Group_translate_ranks");
    MPI_Group_free(&own);
    MPI_Group_free(&all);
    for (int m = 0; m < size; ++m) {
      const auto same_node = [&](int leader) { return node(leader) == node(m); };
      if (std::none_of(leaders.begin(), leaders.end(), same_node)) leaders.push_back(m);
    }
  }

  void make_board() {
    int mates = 0;
    int maker = -1;
    for (int m = size - 1; m >= 0; --m) {
      if (!near(m)) continue;
      maker = m;
      ++mates;
    }
    index_t place = -1;  // of the board in its maker's segment
    if (maker == rank && mates > 1) {
      reclaim();
      board_memory = PanelBoardHandle::make(world->arena());
      if (board_memory) place = board_memory.get() - segment(rank);
    }
    place = control_gather(*world, comm, size, "split", place)[static_cast<std::size_t>(maker)];
    if (place < 0 || mates < 2) return;
    board.join(std::launder(reinterpret_cast<PanelBoard*>(segment(maker) + place)), mates);
    board_members = static_cast<std::uint64_t>(mates);
  }

  void retire(Memory memory) noexcept {
    auto& retired = world->retired_boards;
    try {
      retired.push_back({std::move(memory), board_members});
    } catch (...) {
    }
    reclaim();
  }
  void reclaim() noexcept {
    std::erase_if(world->retired_boards, [](const auto& old) {
      const auto* left = &std::launder(reinterpret_cast<PanelBoard*>(old.memory.get()))->left;
      return left->load(std::memory_order_acquire) == old.members;
    });
  }

  Memory board_memory;
  std::uint64_t board_members = 0;
};

[[nodiscard]] inline std::shared_ptr<MpiWorld> make_world(MPI_Comm user, const MpiOptions& options) {
  if (!mpi_usable()) {
    throw ArgumentError("ArgumentError: MpiComm before MPI_Init or after MPI_Finalize; make an MpiRuntime first");
  }
  if (options.deadline <= std::chrono::milliseconds(0) || options.chunk < 1) {
    throw ArgumentError("ArgumentError: MpiComm with a deadline of " + std::to_string(options.deadline.count()) +
                        " ms and chunks of " + std::to_string(options.chunk) + " elements; both need at least 1");
  }
  return std::make_shared<MpiWorld>(user, options);
}

/// The group of all ranks of the world. Collective.
[[nodiscard]] inline std::shared_ptr<MpiGroup> make_group(std::shared_ptr<MpiWorld> world) {
  MPI_Comm made = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(world->comm(), &made), "MPI_Comm_dup");
  return std::make_shared<MpiGroup>(std::move(world), made);
}

}  // namespace partita::detail
