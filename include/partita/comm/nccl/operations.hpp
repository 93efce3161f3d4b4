// SPDX-License-Identifier: Apache-2.0
// The operations once their arguments are found right: what exactly this rank touches, NCCL's calls, and what is
// counted. The fewer bytes an operation claims, the fewer waits between the two streams.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "partita/comm/arguments.hpp"
#include "partita/comm/nccl/collectives.hpp"
#include "partita/comm/nccl/sums.hpp"

namespace partita::detail {

template <class T>
void reads(NcclWorld& world, View<T> v) {
  world.accesses.push_back(cuda_access(View<const T>(v)));
}
template <class T>
void writes(NcclWorld& world, View<T> v) {
  world.accesses.push_back(cuda_access(v));
}

/// The blocks of `whole` into the world's parts; true where all are empty.
template <class T>
[[nodiscard]] bool cut(NcclWorld& world, View<T> whole, std::span<const Block> blocks) {
  world.parts.clear();
  bool empty = true;
  for (const Block& block : blocks) {
    world.parts.push_back(nccl_block(whole.sub(block)));
    empty = empty && world.parts.back().empty();
  }
  return empty;
}
/// Whether nothing of `whole` is outside of the blocks. They do not overlap, so their sizes tell.
template <class T>
[[nodiscard]] bool covered(View<const T> whole, std::span<const Block> blocks) {
  index_t elements = 0;
  for (const Block& block : blocks) elements += block.size();
  return elements == whole.size();
}

/// Root's view to all. Root's is only read.
template <class T>
void run_broadcast(NcclGroup& g, View<T> view, int root) {
  if (view.empty() || g.size == 1) return;
  NcclWorld& world = *g.world;
  world.accesses.push_back(cuda_access(view));
  world.accesses.back().writes = g.rank != root;
  world.operate([&] { nccl_broadcast(g, nccl_block(view), root); });
  if (g.rank != root) world.traffic.message<std::remove_const_t<T>>(view.size());
}

template <class T>
void run_reduce(NcclGroup& g, View<const T> in, View<T> out, int root, Into into, NcclElement element) {
  if (in.empty()) return;
  NcclWorld& world = *g.world;
  const bool here = g.rank == root;
  reads(world, in);
  if (here) writes(world, out);
  world.operate([&] {
    const auto add = [&](std::byte* sum) { nccl_add<T>(world, sum, out); };
    nccl_reduce(g, nccl_block(in), here ? nccl_block(out) : NcclBlock{}, element, root, into == Into::accumulate, add);
  });
  if (!here) world.traffic.message<T>(in.size());
}

template <class T>
void run_all_reduce(NcclGroup& g, View<const T> in, View<T> out, ReduceOp op, NcclElement element) {
  if (in.empty()) return;
  NcclWorld& world = *g.world;
  reads(world, in);
  writes(world, out);
  world.operate(
      [&] { nccl_all_reduce(g, nccl_block(in), nccl_block(out), element, op == ReduceOp::sum ? ncclSum : ncclMax); });
  world.traffic.all_reduce<T>(in.size(), g.rank, g.size);
}

template <class T>
void run_reduce_scatter(NcclGroup& g, View<const T> in, View<T> out, std::span<const Block> blocks,
                        NcclElement element) {
  NcclWorld& world = *g.world;
  if (cut(world, in, blocks)) return;
  if (covered(in, blocks)) {
    reads(world, in);
  } else {
    for (const Block& block : blocks) reads(world, in.sub(block));
  }
  writes(world, out);
  world.operate([&] {
    if (even(world.parts)) {
      nccl_reduce_scatter_even(g, world.parts, nccl_block(out), element);
    } else {
      nccl_reduce_scatter_uneven(g, world.parts, nccl_block(out), element);
    }
  });
  world.traffic.others<T>(blocks, g.rank);
}

template <class T>
void run_all_gather(NcclGroup& g, View<const T> in, View<T> out, std::span<const Block> blocks) {
  NcclWorld& world = *g.world;
  if (cut(world, out, blocks)) return;
  const auto own = static_cast<std::size_t>(g.rank);
  const bool in_place = same_view<T>(in, out.sub(blocks[own]));
  reads(world, in);
  if (!in_place && covered(View<const T>(out), blocks)) {
    writes(world, out);
  } else {
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      if (r != own || !in_place) writes(world, out.sub(blocks[r]));
    }
  }
  world.operate([&] {
    if (even(world.parts)) {
      nccl_all_gather_even(g, nccl_block(in), world.parts);
    } else {
      nccl_all_gather_uneven(g, nccl_block(in), world.parts);
    }
  });
  world.traffic.others<T>(blocks, g.rank);
}

template <class T>
void run_exchange(NcclGroup& g, std::span<const View<const T>> sends, std::span<const View<T>> receives) {
  NcclWorld& world = *g.world;
  const auto own = static_cast<std::size_t>(g.rank);
  const bool stays = same_view<T>(sends[own], receives[own]);
  std::vector<NcclBlock> from;
  std::vector<NcclBlock> to;
  for (std::size_t r = 0; r < sends.size(); ++r) {
    from.push_back(nccl_block(sends[r]));
    to.push_back(nccl_block(receives[r]));
    if (r == own && stays) continue;
    reads(world, sends[r]);
    writes(world, receives[r]);
  }
  world.operate([&] { nccl_exchange(g, from, to); });
  world.traffic.others<T>(receives, g.rank);
}

}  // namespace partita::detail
