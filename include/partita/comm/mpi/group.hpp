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
#include "partita/comm/mpi/meeting_board.hpp"

namespace partita::detail {

/// Ranks on one node read each other's panels by the board of that node; it stands in the arena of the node's lowest
/// member, and after it, where all members are on that node, the board of their meetings. A board whose maker has left
/// is kept until all its readers have.
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
  /// Wakes the other members of this node.
  void ring_members() const noexcept {
    for (const int m : mates) world->ring(world_rank(m));
  }
  /// Calls f for each other member, from the next one on, so that not all turn to the same one.
  template <class F>
  void for_peers(F f) const {
    for (int i = 1; i < size; ++i) f((rank + i) % size);
  }
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
  std::vector<int> mates;            // the other members of this node
  PanelBoardHandle board;            // none where this rank is alone on its node, or without memory for it
  MeetingBoard meetings;             // likewise, and none where some member is on another node
  std::uint64_t meeting_number = 0;  // begun so far; the same on all members
  std::uint64_t operations = 0;      // likewise
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
      if (m != rank && near(m)) mates.push_back(m);
    }
  }

  void make_board() {
    const int members = static_cast<int>(mates.size()) + 1;
    const int maker = mates.empty() ? rank : std::min(rank, mates.front());
    index_t place = -1;  // of the board in its maker's segment
    if (maker == rank && members > 1) {
      reclaim();
      board_memory = allocate_shared(world->arena(), sizeof(PanelBoard) + MeetingBoard::bytes(members));
      if (board_memory) {
        ::new (static_cast<void*>(board_memory.get())) PanelBoard;
        MeetingBoard::make(board_memory.get() + sizeof(PanelBoard), members);
        place = board_memory.get() - segment(rank);
      }
    }
    place = control_gather(*world, comm, size, "split", place)[static_cast<std::size_t>(maker)];
    if (place < 0 || members < 2) return;
    std::byte* memory = segment(maker) + place;
    board.join(std::launder(reinterpret_cast<PanelBoard*>(memory)), members);
    board_members = static_cast<std::uint64_t>(members);
    if (members == size) meetings.join(memory + sizeof(PanelBoard), members);
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
  const MPI_Comm made = world->duplicate(world->comm());
  return std::make_shared<MpiGroup>(std::move(world), made);
}

}  // namespace partita::detail
