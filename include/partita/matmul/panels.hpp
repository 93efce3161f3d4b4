// SPDX-License-Identifier: Apache-2.0
// What is in flight while a product runs: panels that come in, partial products that go out, and along which groups.
#pragma once

#include <optional>
#include <vector>

#include "partita/backend/concepts.hpp"
#include "partita/base/pool.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/grid/process_grid.hpp"
#include "partita/matmul/plan.hpp"
#include "partita/schedule/step.hpp"

namespace partita::detail {

/// The rectangle `b` counted from the origin of `outer`.
constexpr Block within(Block b, Block outer) noexcept {
  return {b.rows.relative_to(outer.rows.begin), b.cols.relative_to(outer.cols.begin)};
}

/// Where slice `position` of a panel stands in the buffer that holds all slices side by side along the swept dimension.
constexpr Block placed_slice(Shape slice, bool over_rows, int position) noexcept {
  if (over_rows) return {{position * slice.rows, (position + 1) * slice.rows}, {0, slice.cols}};
  return {{0, slice.rows}, {position * slice.cols, (position + 1) * slice.cols}};
}

/// The logical shape of that buffer.
constexpr Shape all_slices(Shape slice, bool over_rows, int count) noexcept {
  return over_rows ? Shape{count * slice.rows, slice.cols} : Shape{slice.rows, count * slice.cols};
}

/// Lists that live as long as one product, in memory that the context uses again.
template <class T>
using ProductList = std::vector<T, Pooled<T>>;

/// A panel of A or B on its way, or being multiplied.
template <class T, class Comm>
struct IncomingPanel {
  std::optional<typename Comm::template Panel<T>> panel;  // by broadcast
  std::optional<typename Comm::Request> request;          // by all_gather
  ProductList<Block> blocks;
  View<T> buffer;
  Shape slice;  // of an all_gather
  bool over_rows = false;
  bool waited = false;

  explicit IncomingPanel(const Pooled<Block>& memory) : blocks(memory) {}

  [[nodiscard]] bool moves() const noexcept { return panel.has_value() || request.has_value(); }

  /// Waits for the panel and gives slice number `s` of it, read as `like` is.
  MatrixOperand<T> slice_of(int s, const MatrixOperand<T>& like) {
    if (!waited) {
      panel ? panel->wait() : request->wait();
      waited = true;
    }
    MatrixOperand<T> whole = like;
    whole.stored = panel ? panel->view() : View<const T>(buffer);
    return panel ? whole : whole.sub(placed_slice(slice, over_rows, s));
  }
  /// The owner may write its block again; the buffer may be used for another panel.
  void release() {
    if (panel) panel->release();
    panel.reset();
    request.reset();
  }
};

/// A partial product of C on its way to its owner; its buffer may be used again after finish().
template <class Acc, class Comm>
struct OutgoingPartial {
  std::optional<typename Comm::Request> request;
  ProductList<Block> blocks;
  View<Acc> buffer;

  explicit OutgoingPartial(const Pooled<Block>& memory) : blocks(memory) {}

  void finish() {
    if (request) request->wait();
    request.reset();
  }
};

/// The slice of each rank of a group in a buffer of all slices.
inline void place_slices(const Step& step, ProductList<Block>& blocks) {
  blocks.clear();
  for (int rank = 0; rank < step.ranks; ++rank) {
    blocks.push_back(placed_slice(step.block.shape(), step.parts.over_rows, step.parts.position_of(rank)));
  }
}

/// The place of a panel in a ring of `places`, each of which is made when it is first used: most products have fewer
/// panels than may be in flight.
template <class Entry>
Entry& place_in(ProductList<Entry>& ring, index_t panel, int places, const Pooled<Block>& memory) {
  const auto i = static_cast<std::size_t>(panel % places);
  while (ring.size() <= i) ring.emplace_back(memory);
  return ring[i];
}

/// A grid makes a sub-communicator at its first use, collectively over all ranks. The steps of ranks whose part of the
/// swept dimension is empty use fewer, so all that the plan names are made before the first, in the plan's order.
template <class Ctx>
void make_communicators(ProcessGrid<Ctx>& grid, const ProductPlan& product) {
  const Plan& plan = product.plan;
  for (const AxisList& axes : {plan.incoming_a, plan.incoming_b, plan.outgoing, product.finish.all_reduce}) {
    if (!axes.empty()) static_cast<void>(grid.comm(axes));
  }
  for (const int axis : product.finish.scatter_rows + product.finish.scatter_cols) {
    static_cast<void>(grid.comm(AxisList{axis}));
  }
}

}  // namespace partita::detail
