// SPDX-License-Identifier: Apache-2.0
// Control traffic: how ranks meet, agree, and form groups.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/thread/collectives.hpp"

namespace partita::detail {

inline void work_barrier(Operation& o) {
  for (int m = 0; m < o.endpoint->group->size; ++m) post_of(o, m);
}

inline void work_agree(Operation& o) {
  auto& largest = *static_cast<index_t*>(o.result);
  for (int m = 0; m < o.endpoint->group->size; ++m) largest = std::max(largest, post_of(o, m).value[0]);
}

inline void work_collect(Operation& o) {
  auto* all = static_cast<std::array<index_t, 2>*>(o.result);
  for (int m = 0; m < o.endpoint->group->size; ++m) all[m] = post_of(o, m).value;
}

/// The group of this member's colour, from the member that made it (its place is in the own post's value[0]).
inline void work_join(Operation& o) {
  const auto maker = static_cast<int>(o.post.value[0]);
  for (int m = 0; m < o.endpoint->group->size; ++m) post_of(o, m);
  if (maker < 0) return;
  const void* made = o.endpoint->group->operation(o.ticket, maker).post.table;
  *static_cast<std::shared_ptr<Group>*>(o.result) = *static_cast<const std::shared_ptr<Group>*>(made);
}

/// Posts a value and a table to all members, and returns when this member's work on theirs is done; with a table, when
/// all members' is.
inline void run_control(Endpoint& end, const char* name, std::array<index_t, 2> value, const void* table,
                        void (*work)(Operation&), void* result) {
  Operation& o = next_operation(end, Kind::control, name, -1);
  o.post.value = value;
  o.post.table = table;
  o.result = result;
  begin_for_all(o, work, table == nullptr);
  complete(end, o, o.ticket);
}

/// Members of equal colour form a group, ordered by key, then by rank: this member's end of it; null for a negative
/// colour.
inline std::shared_ptr<Endpoint> split_group(Endpoint& end, int color, int key) {
  const int size = end.group->size;
  std::vector<std::array<index_t, 2>> all(static_cast<std::size_t>(size));
  run_control(end, "split", {color, key}, nullptr, work_collect, all.data());
  std::vector<int> members;
  for (int m = 0; m < size; ++m) {
    if (color >= 0 && all[static_cast<std::size_t>(m)][0] == color) members.push_back(m);
  }
  const int maker = members.empty() ? -1 : members.front();
  std::sort(members.begin(), members.end(), [&all](int a, int b) {
    return std::pair(all[static_cast<std::size_t>(a)][1], a) < std::pair(all[static_cast<std::size_t>(b)][1], b);
  });
  const auto place = static_cast<int>(std::find(members.begin(), members.end(), end.rank) - members.begin());
  std::shared_ptr<Group> made;
  std::shared_ptr<Group> joined;
  if (maker == end.rank) made = make_group(*end.group, members);
  run_control(end, "split", {maker, 0}, &made, work_join, &joined);
  if (maker < 0) return nullptr;
  return std::make_shared<Endpoint>(std::move(joined), place);
}

}  // namespace partita::detail
