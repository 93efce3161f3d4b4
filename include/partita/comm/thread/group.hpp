// SPDX-License-Identifier: Apache-2.0
// One communicator among threads: its members, the ring of its operations, and one member's end of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partita/comm/checked/inspection.hpp"
#include "partita/comm/thread/world.hpp"

namespace partita::detail {

/// How many operations of one communicator a rank may have begun and not completed.
inline constexpr std::uint64_t ring_size = 64;

/// What a rank has begun and must advance. Its own thread alone uses it.
struct Task {
  bool (*step)(Task&) = nullptr;       // does what can be done; true when complete
  int (*blocked_by)(Task&) = nullptr;  // a departed rank without which it cannot complete (world rank), or -1
  void (*closed)(Task&) = nullptr;     // called on completion, where not null
  const char* name = "";
  Endpoint* endpoint = nullptr;
  std::uint64_t ticket = 0;  // which use of this record: the operation's number
  std::size_t position = 0;  // in RankState::begun
  bool open = false;         // in RankState::begun
  bool owed = false;         // its request has not been waited for, or its panel not been released
};

enum class Kind : std::uint8_t {
  broadcast,
  panel,
  lending,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all_v,
  control
};

/// A rectangle of some element type.
struct Rectangle {
  void* data = nullptr;
  index_t rows = 0;
  index_t cols = 0;
  index_t ld = 0;
};

/// What a member shows the others of its call: constant from the moment its stage says `posted` until the slot is
/// used again, which is after all members are done with it.
struct Post {
  Kind kind = Kind::control;
  ReduceOp op = ReduceOp::sum;
  Into into = Into::overwrite;
  int root = -1;
  const void* type = nullptr;
  const char* name = "";
  Inspection* inspection = nullptr;  // the description of the call, where calls are compared
  Rectangle in;
  Rectangle out;
  const void* table = nullptr;  // the views to send, or a pointer that a control operation hands over
  std::array<index_t, 2> value{};
  Block place;  // of a lent block `in` in a matrix of shape `whole`
  Shape whole;
};

/// One member's part in one operation. Of a lending, what a thread that works for the member while it waits uses too.
/// `stage` is 2 * ticket + 1 once posted, 2 * ticket + 2 once the member will touch no memory of others any more.
struct alignas(cache_line) Operation : Task {
  void (*work)(Operation&) = nullptr;  // what to do with the others' posts; null when done, or where nothing is
  int await = -1;                      // the member waited for, -1 for all
  bool await_done = false;             // until done, else until posted
  bool then_done = false;              // after the work, until all are done
  bool held = false;
  bool uninspected = false;  // carries an inspection that has not been examined
  std::span<const Block> blocks;
  const void* receives = nullptr;
  void* result = nullptr;

  alignas(cache_line) std::atomic<std::uint64_t> stage{0};
  Post post;
};

/// How many members have posted and are done, over all uses of the slot: an operation is posted by all when the
/// count reaches size * (its round + 1). Members are done after they have posted, and post after the last round is
/// done, so neither count runs ahead. `verdict` is used where calls are compared: 2 * ticket + 1 once all have posted,
/// 2 * ticket + 2 once a member has given up waiting for that; whichever comes first stays.
struct alignas(cache_line) Slot {
  std::atomic<std::uint64_t> posted{0};
  std::atomic<std::uint64_t> verdict{0};
  alignas(cache_line) std::atomic<std::uint64_t> done{0};
};

/// A send or a receive; see message.hpp.
struct Message : Task {
  bool sends = false;
  int sender = 0;
  int receiver = 0;
  int tag = 0;
  const void* type = nullptr;
  Rectangle view;
  Message* next = nullptr;
  std::atomic<Message*> partner{nullptr};
  std::atomic<bool> delivered{false};

  // Where calls are compared: the own call, which the own rank frees; the other side's where one was given up.
  std::shared_ptr<Inspection> inspection;
  std::shared_ptr<Inspection> others;
  bool refused = false;               // constant once delivered
  std::atomic<bool> waited{false};    // its rank is in its wait
  std::atomic<bool> given_up{false};  // it will be answered by nobody
};

/// A message that nobody answered in time. What answers it late is refused, unless its rank has begun more
/// `collectives` since.
struct GivenUp {
  bool sends = false;
  int sender = 0;
  int tag = 0;
  std::uint64_t collectives = 0;
  std::shared_ptr<Inspection> call;
};

/// Where sends to and receives of one member meet.
struct alignas(cache_line) Mailbox {
  std::mutex mutex;
  Message* sends = nullptr;
  Message* receives = nullptr;
  std::vector<GivenUp> given_up;
};

struct Group {
  Group(std::shared_ptr<World> launch, std::vector<int> world_ranks)
      : world(std::move(launch)),
        members(std::move(world_ranks)),
        size(static_cast<int>(members.size())),
        slots(ring_size),
        operations(ring_size * members.size()),
        mailboxes(members.size()),
        messages(members.size()),
        free_messages(members.size(), nullptr),
        kept(members.size()) {}

  [[nodiscard]] int world_rank(int member) const noexcept { return members[static_cast<std::size_t>(member)]; }
  [[nodiscard]] Slot& slot(std::uint64_t ticket) noexcept { return slots[ticket % ring_size]; }
  [[nodiscard]] Operation& operation(std::uint64_t ticket, int member) noexcept {
    return operations[(ticket % ring_size) * members.size() + static_cast<std::size_t>(member)];
  }
  [[nodiscard]] bool posted(std::uint64_t ticket, int member) noexcept {
    return operation(ticket, member).stage.load() >= 2 * ticket + 1;
  }
  [[nodiscard]] bool done(std::uint64_t ticket, int member) noexcept {
    return operation(ticket, member).stage.load() >= 2 * ticket + 2;
  }
  [[nodiscard]] std::uint64_t full(std::uint64_t ticket) const noexcept {
    return static_cast<std::uint64_t>(size) * (ticket / ring_size + 1);
  }
  [[nodiscard]] bool all_posted(std::uint64_t ticket) noexcept { return slot(ticket).posted.load() >= full(ticket); }
  [[nodiscard]] bool all_done(std::uint64_t ticket) noexcept { return slot(ticket).done.load() >= full(ticket); }

  /// The world rank of a departed member that has not reached the stage (`until_done` or posted), or -1. A departed
  /// member's stage is final, so the verdict is.
  [[nodiscard]] int departed(std::uint64_t ticket, int member, bool until_done) noexcept {
    if (!world->anybody_gone()) return -1;
    const int first = member < 0 ? 0 : member;
    const int last = member < 0 ? size : member + 1;
    for (int m = first; m < last; ++m) {
      if (world->gone(world_rank(m)) && !(until_done ? done(ticket, m) : posted(ticket, m))) return world_rank(m);
    }
    return -1;
  }

  std::shared_ptr<World> world;
  std::vector<int> members;
  int size;
  std::vector<Slot> slots;
  std::vector<Operation> operations;
  std::vector<Mailbox> mailboxes;
  std::vector<std::deque<Message>> messages;  // one member's own records
  std::vector<Message*> free_messages;
  std::vector<std::shared_ptr<void>> kept;  // what each member keeps alive with the group
};

/// One member's end of a group. Only the thread of its rank uses it, or one that works for it while it waits.
struct Endpoint {
  Endpoint(std::shared_ptr<Group> of, int member)
      : group(std::move(of)),
        rank(member),
        world(group->world.get()),
        world_rank(group->world_rank(member)),
        me(&world->rank(world_rank)) {}

  std::shared_ptr<Group> group;
  int rank;
  World* world;
  int world_rank;
  RankState* me;
  std::uint64_t next = 0;                          // the next operation's number
  Inspection* inspection = nullptr;                // for the next operation
  std::shared_ptr<Inspection> message_inspection;  // for the next send or receive
  std::vector<const Inspection*> calls;
};

/// A group of some members of another.
[[nodiscard]] inline std::shared_ptr<Group> make_group(const Group& from, const std::vector<int>& members) {
  std::vector<int> world_ranks;
  for (const int m : members) world_ranks.push_back(from.world_rank(m));
  try {
    return std::make_shared<Group>(from.world, std::move(world_ranks));
  } catch (const std::bad_alloc&) {
    throw CapacityError("CapacityError: no memory for a communicator of " + std::to_string(members.size()) + " ranks");
  }
}

template <class T>
inline constexpr char type_tag = 0;

template <class T>
[[nodiscard]] Rectangle rectangle(View<T> v) noexcept {
  return {const_cast<void*>(static_cast<const void*>(v.data)), v.rows, v.cols, v.ld};
}
template <class T>
[[nodiscard]] View<T> view_of(const Rectangle& r) noexcept {
  return {static_cast<T*>(r.data), r.rows, r.cols, r.ld};
}

}  // namespace partita::detail
