// SPDX-License-Identifier: Apache-2.0
// The operands of local products: own blocks, and panels that come in from their owners.
#pragma once

#include <array>
#include <optional>

#include "partita/matmul/panels.hpp"
#include "partita/matmul/product_call.hpp"
#include "partita/matmul/schedule.hpp"

namespace partita::detail {

/// A gemm step, of which the panels may still be on their way; `target` is where it is added.
template <class Acc>
struct LocalProduct {
  index_t panel;
  int slice;
  bool last;
  Block block;
  Range k;
  View<Acc> target;

  [[nodiscard]] Block wanted(Operand operand) const {
    return operand == Operand::a ? Block{block.rows, k} : Block{k, block.cols};
  }
};

/// What one rank reads while a schedule runs: its own blocks, and panels of peers in their blocks or in a buffer of
/// ours. Own blocks are lent in turn, panel by panel; or at once, where the communicator can (LendsBlocks).
template <class T, class Out, class Ctx>
class ProductOperands {
  using Comm = typename Ctx::comm_type;
  using Incoming = IncomingPanel<T, Comm>;
  using Product = LocalProduct<accumulate_t<T>>;

 public:
  /// `first_slot`: of the workspace, from which on there are three for each panel in flight, of A, of B and of C.
  ProductOperands(const ProductCall<T, Out, Ctx>& call, const ProductSchedule& schedule, int first_slot)
      : call_(call), schedule_(schedule), context_(call.grid->context()), first_slot_(first_slot) {}

  [[nodiscard]] int ring_slot(Operand operand, index_t panel) const {
    return first_slot_ + 3 * static_cast<int>(panel % schedule_.lookahead()) + static_cast<int>(operand);
  }

  void broadcast(const Step& step) {
    Incoming& in = place(step);
    const MatrixOperand<T>& source = own(step.operand);
    Comm& comm = call_.grid->comm(step.axes);
    if constexpr (LendsBlocks<Comm>) {
      auto& lending = lending_[index_of(step.operand)];
      if (!lending) {
        const Shape whole = whole_shape(step.operand);
        lending.emplace(comm.template lend<T>(source.stored, stored(step.operand, own_block(step.operand)),
                                              source.transposed ? whole.transposed() : whole));
        note_lent(step.axes);
      }
      in.panel.emplace(comm.template panel_of<T>(*lending, step.root, stored(step.operand, step.block)));
    } else {
      const Shape shape = stored(step.operand, step.block).shape();
      View<const T> lent;
      View<T> buffer(nullptr, shape);
      if (step.self == step.root) {
        lent = source.sub(within(step.block, own_block(step.operand))).stored;
        note_lent(step.axes);
      } else if (!Comm::panels_in_place) {
        buffer = scratch(step, shape);
      }
      in.panel.emplace(comm.template broadcast_panel<T>(lent, buffer, step.root));
    }
  }

  /// The slices of a panel arrive side by side along the swept dimension.
  void gather(const Step& step) {
    Incoming& in = place(step);
    const MatrixOperand<T>& source = own(step.operand);
    in.slice = step.block.shape();
    in.over_rows = step.parts.over_rows;
    place_slices(step, in.blocks);
    if (source.transposed) {
      for (Block& block : in.blocks) block = block.transposed();
    }
    const Shape all = all_slices(in.slice, in.over_rows, step.ranks);
    in.buffer = scratch(step, source.transposed ? all.transposed() : all);
    const Block mine = within(step.parts.block_of(step.self, step.block), own_block(step.operand));
    in.request.emplace(
        call_.grid->comm(step.axes).template all_gather<T>(source.sub(mine).stored, in.buffer, in.blocks));
  }

  /// The operand of a product: the part wanted of the own block, or a panel or its slice, which is waited for.
  MatrixOperand<T> arrived(Operand operand, const Product& product) {
    if (Incoming* in = moving(operand, product.panel)) return in->slice_of(product.slice, own(operand));
    return own(operand).sub(within(product.wanted(operand), own_block(operand)));
  }
  /// Nothing reads the product's panels any more.
  void release(const Product& product) {
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (Incoming* in = moving(operand, product.panel)) in->release();
    }
  }

  // On any thread, while the rank waits in share_work(). Pre: the communicator lends blocks, and panels are broadcast.

  [[nodiscard]] bool are_lent(const Product& product) {
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (const Incoming* in = moving(operand, product.panel); in != nullptr && !in->panel->lent()) return false;
    }
    return true;
  }
  [[nodiscard]] MatrixOperand<T> lent(Operand operand, const Product& product) {
    const Incoming* in = moving(operand, product.panel);
    if (in == nullptr) return own(operand).sub(within(product.wanted(operand), own_block(operand)));
    MatrixOperand<T> found = own(operand);
    found.stored = in->panel->lent_view();
    return found;
  }
  /// What was lent() has been read.
  void end_loans(const Product& product) {
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (Incoming* in = moving(operand, product.panel)) in->panel->end_loan();
    }
  }
  /// Nothing will be read after this.
  void end_lendings() {
    for (auto& lending : lending_) {
      if (lending) lending->end_loan();
    }
  }

  /// Waits until own blocks may be written, or die. Pre: all panels are released.
  void drain() {
    for (auto& lending : lending_) lending.reset();
    for (const AxisList& axes : lent_) call_.grid->comm(axes).drain();
  }
  /// The same after a failure, once nobody reads.
  void drain_after_failure() noexcept {
    for (const AxisList& axes : lent_) {
      try {
        call_.grid->comm(axes).drain();
      } catch (...) {  // PeerFailed
      }
    }
  }

 private:
  static constexpr std::size_t index_of(Operand operand) { return operand == Operand::a ? 0 : 1; }
  [[nodiscard]] const MatrixOperand<T>& own(Operand operand) const { return operand == Operand::a ? call_.a : call_.b; }
  [[nodiscard]] Block own_block(Operand operand) const { return operand == Operand::a ? call_.a_block : call_.b_block; }
  [[nodiscard]] Shape whole_shape(Operand operand) const {
    const ProductGeometry& g = schedule_.frame().geometry();
    return operand == Operand::a ? Shape{g.m, g.k} : Shape{g.k, g.n};
  }
  /// The rectangle of memory in which a block of an operand is stored.
  [[nodiscard]] Block stored(Operand operand, Block block) const {
    return own(operand).transposed ? block.transposed() : block;
  }
  View<T> scratch(const Step& step, Shape shape) {
    return View<T>(context_.template workspace<T>(ring_slot(step.operand, step.panel), shape.size()), shape);
  }

  /// The place of a panel that is about to move.
  Incoming& place(const Step& step) {
    Incoming& in = place_in(incoming_[index_of(step.operand)], step.panel, schedule_.lookahead(), memory_);
    in.waited = false;
    return in;
  }
  /// Null where the operand does not move.
  [[nodiscard]] Incoming* moving(Operand operand, index_t panel) {
    ProductList<Incoming>& ring = incoming_[index_of(operand)];
    if (ring.empty()) return nullptr;
    Incoming& in = ring[static_cast<std::size_t>(panel % schedule_.lookahead())];
    return in.moves() ? &in : nullptr;
  }

  /// Panels were lent along these axes: their release is awaited at the end.
  void note_lent(const AxisList& axes) {
    for (const AxisList& known : lent_) {
      if (known == axes) return;
    }
    lent_.push_back(axes);
  }

  const ProductCall<T, Out, Ctx>& call_;
  const ProductSchedule& schedule_;
  Ctx& context_;
  int first_slot_;
  Pooled<Block> memory_ = context_.template pooled<Block>();
  std::array<std::optional<lending_t<Comm>>, 2> lending_;  // outlive their panels
  std::array<ProductList<Incoming>, 2> incoming_{ProductList<Incoming>(memory_), ProductList<Incoming>(memory_)};
  ProductList<AxisList> lent_ = ProductList<AxisList>(memory_);
};

}  // namespace partita::detail
