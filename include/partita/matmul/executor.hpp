// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a product's schedule on one rank: one executor for all partitions, by scalar and context.
#pragma once

#include <array>
#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "partita/matmul/compare.hpp"
#include "partita/matmul/panels.hpp"
#include "partita/matmul/product_call.hpp"
#include "partita/matmul/schedule.hpp"
#include "partita/matmul/total.hpp"

namespace partita {

namespace detail {

/// Where everything lies while a schedule runs:
///
///   A, B    own blocks, lent to the group as panels; a peer's panel is read in its block or in a buffer of ours
///   slots   partial products on their way to their owner; one waits for its reduction before it is used again
///   total   what is accumulated, see ProductTotal
template <class T, class Out, class Ctx>
class Executor {
  using Acc = accumulate_t<T>;
  using Comm = typename Ctx::comm_type;
  using Incoming = IncomingPanel<T, Comm>;
  using Outgoing = OutgoingPartial<Acc, Comm>;

 public:
  Executor(const ProductCall<T, Out, Ctx>& call, const ProductSchedule& schedule)
      : call_(call), schedule_(schedule), context_(call.grid->context()), total_(call, schedule) {}

  void run() {
    if (call_.alpha == Acc(0)) {
      total_.open();
    } else {
      try {
        run_steps();
      } catch (const std::exception& error) {
        leave(error.what());
        throw;
      } catch (...) {
        leave("an exception of unknown type");
        throw;
      }
    }
    total_.close();
  }

 private:
  using Total = ProductTotal<T, Out, Ctx>;

  // Workspace slots of the context: the total's, then for each panel in flight one of A, of B and of partial products.

  template <class U>
  View<U> scratch(int slot, Shape shape) {
    return View<U>(context_.template workspace<U>(slot, shape.size()), shape);
  }
  [[nodiscard]] int ring_slot(Operand operand, index_t panel) const {
    return Total::slots + 3 * static_cast<int>(panel % schedule_.lookahead()) + static_cast<int>(operand);
  }
  [[nodiscard]] const MatrixOperand<T>& own(Operand operand) const { return operand == Operand::a ? call_.a : call_.b; }
  [[nodiscard]] Block own_block(Operand operand) const { return operand == Operand::a ? call_.a_block : call_.b_block; }
  Incoming& incoming(Operand operand, index_t panel) {
    return place_in(incoming_[operand == Operand::a ? 0 : 1], panel, schedule_.lookahead(), memory_);
  }
  Outgoing& outgoing(index_t panel) { return place_in(outgoing_, panel, schedule_.lookahead(), memory_); }

  void run_steps() {
    make_communicators(*call_.grid, schedule_.frame().product());
    schedule_.for_each([this](const Step& step) { perform(step); });
    land_all();
    for (const AxisList& axes : lent_) call_.grid->comm(axes).drain();  // then own blocks may be written, or die
  }

  /// An error on the way out (different products are found before). Peers cannot complete theirs, so they are told; and
  /// the blocks may die with the caller's scope, so that peers that still read them are awaited.
  void leave(const char* reason) noexcept {
    try {
      context_.comm().abort(reason);
    } catch (...) {  // the error that brought us here is the one to report
    }
    for (const AxisList& axes : lent_) {
      try {
        call_.grid->comm(axes).drain();
      } catch (...) {  // PeerFailed, once nobody reads
      }
    }
  }

  void perform(const Step& step) {
    switch (step.kind) {
      case StepKind::broadcast:
        return broadcast(step);
      case StepKind::all_gather:
        return gather(step);
      case StepKind::gemm:
        return multiply(step);
      case StepKind::reduce:
        return reduce(step);
      case StepKind::reduce_scatter:
        return step.parts.even_width > 0 ? reduce_slices(step) : reduce_scatter(step);
      case StepKind::all_reduce:
        return all_reduce(step);
      default:
        throw std::logic_error("a product has no such step");
    }
  }

  /// The shape in which `block` of an operand is stored.
  [[nodiscard]] Shape stored_shape(Operand operand, Shape logical) const {
    return own(operand).transposed ? logical.transposed() : logical;
  }

  void broadcast(const Step& step) {
    Incoming& in = incoming(step.operand, step.panel);
    const MatrixOperand<T>& source = own(step.operand);
    const Shape shape = stored_shape(step.operand, step.block.shape());
    View<const T> lent;
    View<T> buffer(nullptr, shape);
    if (step.self == step.root) {
      lent = source.sub(within(step.block, own_block(step.operand))).stored;
      lend(step.axes);
    } else if (!Comm::panels_in_place) {
      buffer = scratch<T>(ring_slot(step.operand, step.panel), shape);
    }
    in.panel.emplace(call_.grid->comm(step.axes).template broadcast_panel<T>(lent, buffer, step.root));
    in.waited = false;
  }

  /// Notes that panels were lent along these axes, so that their release is awaited at the end.
  void lend(const AxisList& axes) {
    for (const AxisList& known : lent_) {
      if (known == axes) return;
    }
    lent_.push_back(axes);
  }

  /// The slices of a panel arrive side by side along the swept dimension.
  void gather(const Step& step) {
    Incoming& in = incoming(step.operand, step.panel);
    const MatrixOperand<T>& source = own(step.operand);
    in.slice = step.block.shape();
    in.over_rows = step.parts.over_rows;
    place_slices(step, in.blocks);
    if (source.transposed) {
      for (Block& block : in.blocks) block = block.transposed();
    }
    in.buffer = scratch<T>(ring_slot(step.operand, step.panel),
                           stored_shape(step.operand, all_slices(in.slice, in.over_rows, step.ranks)));
    const Block mine = within(step.parts.block_of(step.self, step.block), own_block(step.operand));
    in.request.emplace(
        call_.grid->comm(step.axes).template all_gather<T>(source.sub(mine).stored, in.buffer, in.blocks));
    in.waited = false;
  }

  /// The slice of each rank of the group in a buffer of all slices.
  static void place_slices(const Step& step, ProductList<Block>& blocks) {
    blocks.clear();
    for (int rank = 0; rank < step.ranks; ++rank) {
      blocks.push_back(placed_slice(step.block.shape(), step.parts.over_rows, step.parts.position_of(rank)));
    }
  }

  /// The operand of a gemm step: the part wanted of the own block, or the slice of a panel that has come in.
  MatrixOperand<T> arrived(Operand operand, const Step& step, Block wanted) {
    Incoming& in = incoming(operand, step.panel);
    if (in.moves()) return in.slice_of(step.slice, own(operand));
    return own(operand).sub(within(wanted, own_block(operand)));
  }

  void multiply(const Step& step) {
    const MatrixOperand<T> a = arrived(Operand::a, step, {step.block.rows, step.k});
    const MatrixOperand<T> b = arrived(Operand::b, step, {step.k, step.block.cols});
    const View<Acc> target = product_target(step);
    [[maybe_unused]] const auto turn = compute_turn(context_.comm());
    clear_target(step);
    context_.backend().template gemm<T>(call_.alpha, a, b, target);
    if (!step.last) return;
    incoming(Operand::a, step.panel).release();
    incoming(Operand::b, step.panel).release();
  }

  /// Where a local product is added: the total, or a slot from which it is reduced.
  View<Acc> product_target(const Step& step) {
    if (!goes_out()) return total_.at(step.block);
    Outgoing& out = outgoing(step.panel);
    const bool over_rows = schedule_.frame().sweeps_rows_of(Operand::c);
    const Shape slice = step.block.shape();
    if (step.slice == 0) {
      out.finish();
      out.buffer = scratch<Acc>(ring_slot(Operand::c, step.panel), all_slices(slice, over_rows, schedule_.slices()));
    }
    return out.buffer.sub(placed_slice(slice, over_rows, step.slice));
  }
  [[nodiscard]] bool goes_out() const { return !schedule_.frame().plan().outgoing.empty(); }
  /// Just before the first product is added, which then finds the zeros in cache.
  void clear_target(const Step& step) {
    if (!goes_out()) return total_.open();
    if (step.slice == 0) context_.backend().template scale<Acc>(Acc(0), outgoing(step.panel).buffer);
  }

  void reduce(const Step& step) {
    Outgoing& out = outgoing(step.panel);
    total_.open();
    View<Acc> target;
    if (step.self == step.root) target = total_.at(step.block);
    out.request.emplace(
        call_.grid->comm(step.axes).template reduce<Acc>(out.buffer, target, step.root, Into::accumulate));
  }

  void reduce_slices(const Step& step) {
    Outgoing& out = outgoing(step.panel);
    total_.open();
    place_slices(step, out.blocks);
    const Block mine = step.parts.block_of(step.self, step.block);
    out.request.emplace(
        call_.grid->comm(step.axes).template reduce_scatter<Acc>(out.buffer, total_.at(mine), out.blocks));
  }

  /// The total is final only when all partial products, or all sums of its panels, have landed in it.
  void land_all() {
    total_.open();
    for (Outgoing& slot : outgoing_) slot.finish();
  }

  /// The place of a sum that is about to begin. What it sums is final: a panel when it has been multiplied, the whole
  /// when all has landed.
  Outgoing& beginning(const Step& step) {
    if (!schedule_.sums().cut()) land_all();
    total_.open();
    Outgoing& sum = outgoing(step.panel);
    sum.finish();
    return sum;
  }

  void all_reduce(const Step& step) {
    Outgoing& sum = beginning(step);
    const View<Acc> part = total_.at(step.block);
    sum.request.emplace(call_.grid->comm(step.axes).template all_reduce<Acc>(part, part, ReduceOp::sum));
  }

  /// A pending sum whose parts stay with their owners: with its last panel the total shrinks to this rank's part.
  void reduce_scatter(const Step& step) {
    Outgoing& sum = beginning(step);
    if (step.panel == 0) total_.open_part(step.parts.block_of(step.self, total_.block()));
    sum.blocks.clear();
    for (int rank = 0; rank < step.ranks; ++rank) {
      sum.blocks.push_back(within(step.parts.block_of(rank, step.block), step.block));
    }
    const Block mine = step.parts.block_of(step.self, step.block);
    sum.request.emplace(call_.grid->comm(step.axes).template reduce_scatter<Acc>(total_.at(step.block),
                                                                                 total_.part_at(mine), sum.blocks));
    if (!step.last) return;
    land_all();
    total_.shrink_to_part();
  }

  const ProductCall<T, Out, Ctx>& call_;
  const ProductSchedule& schedule_;
  Ctx& context_;
  Total total_;
  Pooled<Block> memory_ = context_.template pooled<Block>();
  std::array<ProductList<Incoming>, 2> incoming_{ProductList<Incoming>(memory_), ProductList<Incoming>(memory_)};
  ProductList<Outgoing> outgoing_ = ProductList<Outgoing>(memory_);
  ProductList<AxisList> lent_ = ProductList<AxisList>(memory_);
};

}  // namespace detail

/// Runs the schedule. Returns complete: own blocks are no longer read by peers, C is final.
/// Communicates: exactly the schedule's steps, with alpha = 0 none (A and B are not read); first a comparison, if any.
template <class T, class Out, class Ctx>
void execute(const ProductCall<T, Out, Ctx>& call, const ProductSchedule& schedule) {
  detail::compare_product<T>(call, schedule);
  detail::Executor<T, Out, Ctx>(call, schedule).run();
}

}  // namespace partita
