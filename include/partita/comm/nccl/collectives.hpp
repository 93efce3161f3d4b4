// SPDX-License-Identifier: Apache-2.0
// The collectives as NCCL's calls on the stream of communication. Rectangles with gaps go through staging memory.
//
//   all blocks of one size   ncclAllGather, ncclReduceScatter; straight from and to where they stand in rank order
//   else                     a group of ncclBroadcast or ncclReduce, one for each block that is not empty
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "partita/comm/nccl/stage.hpp"

namespace partita::detail {

/// Whether all blocks have one size: the same verdict on all ranks.
[[nodiscard]] inline bool even(std::span<const NcclBlock> blocks) noexcept {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const NcclBlock& b) { return b.bytes() == blocks.front().bytes(); });
}

/// Whether they stand one after the other, in rank order, without gaps.
[[nodiscard]] inline bool in_rank_order(std::span<const NcclBlock> blocks) noexcept {
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    if (!blocks[r].contiguous() || blocks[r].data != blocks[0].data + r * blocks[0].bytes()) return false;
  }
  return true;
}

inline void nccl_broadcast(NcclGroup& g, const NcclBlock& block, int root) {
  NcclStage stage(*g.world);
  const NcclPlace place = stage.place(block);
  stage.open();
  if (g.rank == root) stage.pack(place);
  g.world->check(
      ncclBroadcast(stage.at(place), stage.at(place), block.bytes(), ncclInt8, root, g.comm, g.world->stream()),
      "ncclBroadcast");
  g.world->settle(g.comm, "ncclBroadcast");
  if (g.rank != root) stage.unpack(place);
}

/// Root: `finish(sum)` is called where the sum, without gaps, is to be added to the output; else it is written there.
template <class Finish>
void nccl_reduce(NcclGroup& g, const NcclBlock& in, const NcclBlock& out, NcclElement element, int root,
                 bool accumulates, Finish finish) {
  const bool here = g.rank == root;
  NcclStage stage(*g.world);
  const NcclPlace from = stage.place(in);
  NcclPlace to;
  if (here) {
    const bool direct = out.contiguous() && !accumulates;
    to = direct ? NcclPlace{out, 0, true} : !from.direct ? NcclPlace{out, from.offset, false} : stage.room(out);
  }
  stage.open();
  stage.pack(from);
  g.world->check(ncclReduce(stage.at(from), here ? stage.at(to) : nullptr, element.count(in.bytes()), element.type,
                            ncclSum, root, g.comm, g.world->stream()),
                 "ncclReduce");
  g.world->settle(g.comm, "ncclReduce");
  if (!here) return;
  accumulates ? finish(stage.at(to)) : stage.unpack(to);
}

inline void nccl_all_reduce(NcclGroup& g, const NcclBlock& in, const NcclBlock& out, NcclElement element,
                            ncclRedOp_t op) {
  NcclStage stage(*g.world);
  const NcclPlace from = stage.place(in);
  const NcclPlace to = out.contiguous() || from.direct ? stage.place(out) : NcclPlace{out, from.offset, false};
  stage.open();
  stage.pack(from);
  g.world->check(ncclAllReduce(stage.at(from), stage.at(to), element.count(in.bytes()), element.type, op, g.comm,
                               g.world->stream()),
                 "ncclAllReduce");
  g.world->settle(g.comm, "ncclAllReduce");
  stage.unpack(to);
}

/// Of equal blocks.
inline void nccl_reduce_scatter_even(NcclGroup& g, std::span<const NcclBlock> blocks, const NcclBlock& out,
                                     NcclElement element) {
  const auto own = static_cast<std::size_t>(g.rank);
  const std::size_t bytes = blocks[0].bytes();
  const bool direct = in_rank_order(blocks);
  NcclStage stage(*g.world);
  const std::size_t all = direct ? 0 : stage.reserve(bytes * blocks.size());
  const NcclPlace to = direct || out.contiguous() ? stage.place(out) : NcclPlace{out, all + own * bytes, false};
  stage.open();
  for (std::size_t r = 0; r < blocks.size() && !direct; ++r) stage.pack({blocks[r], all + r * bytes, false});
  g.world->check(ncclReduceScatter(direct ? blocks[0].data : stage.at(all), stage.at(to), element.count(bytes),
                                   element.type, ncclSum, g.comm, g.world->stream()),
                 "ncclReduceScatter");
  g.world->settle(g.comm, "ncclReduceScatter");
  stage.unpack(to);
}

/// Of blocks that differ in size.
inline void nccl_reduce_scatter_uneven(NcclGroup& g, std::span<const NcclBlock> blocks, const NcclBlock& out,
                                       NcclElement element) {
  const auto own = static_cast<std::size_t>(g.rank);
  NcclStage stage(*g.world);
  std::vector<NcclPlace> from;
  for (const NcclBlock& block : blocks) from.push_back(stage.place(block));
  const NcclPlace to =
      out.contiguous() || from[own].direct ? stage.place(out) : NcclPlace{out, from[own].offset, false};
  stage.open();
  for (const NcclPlace& place : from) stage.pack(place);
  NcclCalls calls(g);
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    if (blocks[r].empty()) continue;
    g.world->check(ncclReduce(stage.at(from[r]), r == own ? stage.at(to) : nullptr, element.count(blocks[r].bytes()),
                              element.type, ncclSum, static_cast<int>(r), g.comm, g.world->stream()),
                   "ncclReduce");
  }
  calls.end();
  stage.unpack(to);
}

/// Of equal blocks.
inline void nccl_all_gather_even(NcclGroup& g, const NcclBlock& in, std::span<const NcclBlock> blocks) {
  const auto own = static_cast<std::size_t>(g.rank);
  const std::size_t bytes = blocks[0].bytes();
  const bool direct = in_rank_order(blocks);
  const bool in_place = in.data == blocks[own].data;
  NcclStage stage(*g.world);
  const std::size_t all = direct ? 0 : stage.reserve(bytes * blocks.size());
  const NcclPlace from = direct ? stage.place(in) : NcclPlace{in, all + own * bytes, false};
  stage.open();
  stage.pack(from);
  g.world->check(ncclAllGather(stage.at(from), direct ? blocks[0].data : stage.at(all), bytes, ncclInt8, g.comm,
                               g.world->stream()),
                 "ncclAllGather");
  g.world->settle(g.comm, "ncclAllGather");
  for (std::size_t r = 0; r < blocks.size() && !direct; ++r) {
    if (r != own || !in_place) stage.unpack({blocks[r], all + r * bytes, false});
  }
}

/// Of blocks that differ in size.
inline void nccl_all_gather_uneven(NcclGroup& g, const NcclBlock& in, std::span<const NcclBlock> blocks) {
  const auto own = static_cast<std::size_t>(g.rank);
  NcclStage stage(*g.world);
  std::vector<NcclPlace> to;
  for (std::size_t r = 0; r < blocks.size(); ++r) to.push_back(stage.place(r == own ? in : blocks[r]));
  stage.open();
  stage.pack(to[own]);
  NcclCalls calls(g);
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    if (blocks[r].empty()) continue;
    g.world->check(ncclBroadcast(stage.at(to[r]), stage.at(to[r]), blocks[r].bytes(), ncclInt8, static_cast<int>(r),
                                 g.comm, g.world->stream()),
                   "ncclBroadcast");
  }
  calls.end();
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    if (r != own) stage.unpack(to[r]);
  }
  if (in.data != blocks[own].data && !in.empty()) g.world->copy(in, blocks[own]);
}

/// Rank r gets sends[r]; what it sends comes to receives[r].
inline void nccl_exchange(NcclGroup& g, std::span<const NcclBlock> sends, std::span<const NcclBlock> receives) {
  const auto own = static_cast<std::size_t>(g.rank);
  NcclStage stage(*g.world);
  std::vector<NcclPlace> from;
  std::vector<NcclPlace> to;
  bool moves = false;
  for (std::size_t r = 0; r < sends.size(); ++r) {
    from.push_back(r == own ? NcclPlace{} : stage.place(sends[r]));
    to.push_back(r == own ? NcclPlace{} : stage.place(receives[r]));
    moves = moves || !from[r].block.empty() || !to[r].block.empty();
  }
  stage.open();
  for (const NcclPlace& place : from) stage.pack(place);
  if (moves) {
    NcclCalls calls(g);
    for (std::size_t r = 0; r < sends.size(); ++r) {
      const int peer = static_cast<int>(r);
      if (!from[r].block.empty()) {
        g.world->check(ncclSend(stage.at(from[r]), from[r].block.bytes(), ncclInt8, peer, g.comm, g.world->stream()),
                       "ncclSend");
      }
      if (!to[r].block.empty()) {
        g.world->check(ncclRecv(stage.at(to[r]), to[r].block.bytes(), ncclInt8, peer, g.comm, g.world->stream()),
                       "ncclRecv");
      }
    }
    calls.end();
  }
  for (const NcclPlace& place : to) stage.unpack(place);
  if (!receives[own].empty() && receives[own].data != sends[own].data) g.world->copy(sends[own], receives[own]);
}

}  // namespace partita::detail
