// SPDX-License-Identifier: Apache-2.0
// Where a product is accumulated on one rank, from its first term to the result.
#pragma once

#include <type_traits>
#include <utility>

#include "partita/backend/concepts.hpp"
#include "partita/matmul/panels.hpp"
#include "partita/matmul/product_call.hpp"
#include "partita/matmul/schedule.hpp"

namespace partita::detail {

/// C itself, or an accumulator where old values of C are still wanted or C is 16 bits wide. Blocks are global
/// rectangles of C. A reduce_scatter leaves a part of the total, which then is the total.
template <class T, class Out, class Ctx>
class ProductTotal {
  using Acc = accumulate_t<T>;

 public:
  /// Workspace of the context that it may use: the slots below this one.
  static constexpr int slots = 2;

  ProductTotal(const ProductCall<T, Out, Ctx>& call, const ProductSchedule& schedule)
      : call_(call), context_(call.grid->context()), block_(schedule.frame().natural_block()) {
    const Finish& finish = schedule.frame().product().finish;
    scatters_left_ = finish.scatter_rows.size() + finish.scatter_cols.size();
    const bool overwrites = call.beta == Acc(0);
    const bool sums_overwrite =
        !finish.all_reduce.empty() || (schedule.sliced_panels() && schedule.panel_elements(Operand::c) > 0);
    in_place_ = std::is_same_v<Out, Acc> && scatters_left_ == 0 && (overwrites || !sums_overwrite);
    if constexpr (std::is_same_v<Out, Acc>) {
      if (in_place_) total_ = call.c;
    }
    if (!in_place_) total_ = scratch(block_.shape());
  }

  /// The beginning: beta·C, or zeros where C itself is not written yet. The first call counts.
  void open() {
    if (std::exchange(open_, true)) return;
    context_.backend().template scale<Acc>(in_place_ ? call_.beta : Acc(0), total_);
  }
  [[nodiscard]] Block block() const noexcept { return block_; }
  [[nodiscard]] View<Acc> at(Block block) const { return total_.sub(within(block, block_)); }

  /// Makes room for the part `block` of the total: the last one in C itself where nothing old is added.
  void open_part(Block block) {
    part_block_ = block;
    if constexpr (std::is_same_v<Out, Acc>) {
      in_place_ = --scatters_left_ == 0 && call_.beta == Acc(0);
      if (in_place_) part_ = call_.c;
    }
    if (!in_place_) part_ = scratch(block.shape());
  }
  [[nodiscard]] View<Acc> part_at(Block block) const { return part_.sub(within(block, part_block_)); }
  /// The part has its sum, and is the total from now on.
  void shrink_to_part() {
    total_ = part_;
    block_ = part_block_;
  }

  /// C = beta·C + the total, unless it is there already.
  void close() {
    if (!in_place_) context_.backend().template combine<Out>(call_.beta, total_, call_.c);
  }

 private:
  /// Two places in turn: the next part is made while the total stands.
  View<Acc> scratch(Shape shape) {
    next_slot_ = 1 - next_slot_;
    return View<Acc>(context_.template workspace<Acc>(1 - next_slot_, shape.size()), shape);
  }

  const ProductCall<T, Out, Ctx>& call_;
  Ctx& context_;
  bool in_place_ = false;
  bool open_ = false;
  int scatters_left_ = 0;
  int next_slot_ = 0;
  View<Acc> total_;
  Block block_;
  View<Acc> part_;
  Block part_block_;
};

}  // namespace partita::detail
