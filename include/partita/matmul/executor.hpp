// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a product's schedule on one rank: one executor for all partitions, by scalar and context.
#pragma once

#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "partita/matmul/compare.hpp"
#include "partita/matmul/operands.hpp"
#include "partita/matmul/total.hpp"

namespace partita {

namespace detail {

/// Where everything lies while a schedule runs:
///
///   A, B    see ProductOperands
///   slots   partial products on their way to their owner; one waits for its reduction before it is used again
///   total   what is accumulated, see ProductTotal
template <class T, class Out, class Ctx>
class Executor {
  using Acc = accumulate_t<T>;
  using Comm = typename Ctx::comm_type;
  using Product = LocalProduct<Acc>;
  using Outgoing = OutgoingPartial<Acc, Comm>;

 public:
  Executor(const ProductCall<T, Out, Ctx>& call, const ProductSchedule& schedule)
      : call_(call),
        schedule_(schedule),
        context_(call.grid->context()),
        total_(call, schedule),
        operands_(call, schedule, Total::slots) {}

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

  Outgoing& outgoing(index_t panel) { return place_in(outgoing_, panel, schedule_.lookahead(), memory_); }

  void run_steps() {
    make_communicators(*call_.grid, schedule_.frame().product());
    schedule_.for_each([this](const Step& step) { perform(step); });
    swept_ = true;
    run_products();
    land_all();
    operands_.drain();
  }

  /// An error on the way out (different products are found before). Peers cannot complete theirs, so they are told; and
  /// the blocks may die with the caller's scope, so that peers that still read them are awaited.
  void leave(const char* reason) noexcept {
    try {
      context_.comm().abort(reason);
    } catch (...) {  // the error that brought us here is the one to report
    }
    operands_.drain_after_failure();
  }

  /// Panels may be asked for while products wait for theirs, unless their places are taken by these.
  [[nodiscard]] bool may_begin_beside_products(const Step& step) const {
    return step.kind == StepKind::broadcast && !products_.empty() &&
           step.panel < products_.front().panel + schedule_.lookahead();
  }

  void perform(const Step& step) {
    if (step.kind != StepKind::gemm && !may_begin_beside_products(step)) run_products();
    switch (step.kind) {
      case StepKind::broadcast:
        return operands_.broadcast(step);
      case StepKind::all_gather:
        return operands_.gather(step);
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

  /// Whether other threads may run local products. These are gathered then until something needs their results.
  static constexpr bool shares = SharesWork<Comm> && LendsBlocks<Comm> && any_thread_v<typename Ctx::backend_type>;

  void multiply(const Step& step) {
    products_.push_back({step.panel, step.slice, step.last, step.block, step.k, product_target(step)});
    if (!shares || schedule_.sliced_panels()) run_products();
  }

  /// Runs what has been gathered: by whoever can; or here, where the panels are waited for one by one.
  void run_products() {
    if (products_.empty()) return;
    known_ = 0;
    run_ = 0;
    if constexpr (shares) {
      if (!schedule_.sliced_panels()) {
        static_cast<void>(
            context_.comm().share_work([](void* self) { return static_cast<Executor*>(self)->all_lent(); },
                                       [](void* self) { return static_cast<Executor*>(self)->run_lent(); }, this));
      }
    }
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const Product& product = products_[i];
      if (i >= run_) {
        const MatrixOperand<T> a = operands_.arrived(Operand::a, product);
        const MatrixOperand<T> b = operands_.arrived(Operand::b, product);
        [[maybe_unused]] const auto turn = compute_turn(context_.comm());
        add_product(product, a, b);
      }
      if (product.last) operands_.release(product);
    }
    products_.clear();
  }

  void add_product(const Product& product, const MatrixOperand<T>& a, const MatrixOperand<T>& b) {
    clear_target(product);
    context_.backend().template gemm<T>(call_.alpha, a, b, product.target);
  }

  // On any thread, while this one waits in share_work().

  [[nodiscard]] bool all_lent() {
    while (known_ < products_.size() && operands_.are_lent(products_[known_])) ++known_;
    return known_ == products_.size();
  }
  /// One product; true after the last.
  [[nodiscard]] bool run_lent() {
    const Product& product = products_[run_];
    add_product(product, operands_.lent(Operand::a, product), operands_.lent(Operand::b, product));
    if (product.last) operands_.end_loans(product);
    if (++run_ < products_.size()) return false;
    if (swept_) operands_.end_lendings();
    return true;
  }

  /// Where a local product is added: the total, or a slot from which it is reduced.
  View<Acc> product_target(const Step& step) {
    if (!goes_out()) return total_.at(step.block);
    Outgoing& out = outgoing(step.panel);
    const bool over_rows = schedule_.frame().sweeps_rows_of(Operand::c);
    const Shape slice = step.block.shape();
    if (step.slice == 0) {
      out.finish();
      const Shape shape = all_slices(slice, over_rows, schedule_.slices());
      Acc* memory = context_.template workspace<Acc>(operands_.ring_slot(Operand::c, step.panel), shape.size());
      out.buffer = View<Acc>(memory, shape);
    }
    return out.buffer.sub(placed_slice(slice, over_rows, step.slice));
  }
  [[nodiscard]] bool goes_out() const { return !schedule_.frame().plan().outgoing.empty(); }
  /// Just before the first product is added, which then finds the zeros in cache.
  void clear_target(const Product& product) {
    if (!goes_out()) return total_.open();
    if (product.slice == 0) context_.backend().template scale<Acc>(Acc(0), outgoing(product.panel).buffer);
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
  ProductList<Outgoing> outgoing_ = ProductList<Outgoing>(memory_);
  ProductOperands<T, Out, Ctx> operands_;
  ProductList<Product> products_ = ProductList<Product>(memory_);
  std::size_t known_ = 0;  // how many of them are known to have their panels
  std::size_t run_ = 0;    // how many have been run
  bool swept_ = false;     // nothing will be gathered after them
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
