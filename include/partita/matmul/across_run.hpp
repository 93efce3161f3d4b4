// SPDX-License-Identifier: Apache-2.0
// Runs products across layouts on one rank: a template on scalar and context, not on partitions.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>

#include "partita/matmul/across_schedule.hpp"
#include "partita/matmul/compare.hpp"
#include "partita/matmul/panels.hpp"
#include "partita/redistribute/redistribute.hpp"

namespace partita {

/// One rank's part of C = alpha·A·B + beta·C. `a` and `b` are this rank's blocks, in the geometry's placements; `grid`
/// is C's.
template <class T, class Out, class Ctx>
struct AcrossCall {
  ProcessGrid<Ctx>* grid;
  MatrixOperand<T> a;
  MatrixOperand<T> b;
  View<Out> c;
  accumulate_t<T> alpha;
  accumulate_t<T> beta;
};

namespace detail {

/// Workspace slots beyond those of the executor, which has three for each panel in flight and two more.
inline constexpr int across_slots = 3 * most_panels_in_flight + 2;

/// Runs f(). Where it throws, peers cannot complete the product, and are told why.
template <class Comm, class F>
void abort_on_error(Comm& comm, F f) {
  try {
    f();
  } catch (const std::exception& error) {
    comm.abort(error.what());
    throw;
  } catch (...) {
    comm.abort("an exception of unknown type");
    throw;
  }
}

/// What is wanted of a rank's own block. Pre: the rank holds it, or wants nothing.
template <class T>
MatrixOperand<T> held_part(const MatrixOperand<T>& own, const Exchange& exchange) {
  const Block wanted = exchange.wanted();
  if (wanted.size() == 0) return {{}, own.transposed, own.conjugated};
  const Block held = exchange.held();
  return own.sub({wanted.rows.relative_to(held.rows.begin), wanted.cols.relative_to(held.cols.begin)});
}

/// All that ranks must agree on, beside what compare_calls() compares itself.
constexpr std::uint64_t hash_across(const AcrossGeometry& g, Route route, const MatmulOptions& options) noexcept {
  std::uint64_t h = static_cast<std::uint64_t>(route);
  for (const Placement* at : {&g.a, &g.b, &g.c}) {
    h = hash_layout(h, at->layout);
    for (const int extent : at->extents) h = mix(h, static_cast<std::uint64_t>(extent));
    h = mix(mix(h, static_cast<std::uint64_t>(at->units.rows)), static_cast<std::uint64_t>(at->units.cols));
  }
  for (const index_t option :
       {options.panel_width.value_or(0), index_t{options.lookahead.value_or(0)},
        options.panels ? 1 + static_cast<index_t>(*options.panels) : 0, options.sum_width.value_or(0)}) {
    h = mix(h, static_cast<std::uint64_t>(option));
  }
  return h;
}

/// The panels' route.
template <class T, class Out, class Ctx>
class AcrossExecutor {
  using Acc = accumulate_t<T>;
  using Request = typename Ctx::comm_type::Request;

 public:
  AcrossExecutor(const AcrossCall<T, Out, Ctx>& call, const AcrossSchedule& schedule)
      : call_(call), schedule_(schedule), context_(call.grid->context()) {
    if constexpr (std::is_same_v<Out, Acc>) {
      total_ = call.c;
    } else {
      total_ = View<Acc>(context_.template workspace<Acc>(across_slots, schedule.block().size()), call.c.shape());
    }
  }

  void run() {
    constexpr bool in_place = std::is_same_v<Out, Acc>;
    context_.backend().template scale<Acc>(in_place ? call_.beta : Acc(0), total_);
    if (call_.alpha != Acc(0)) {
      abort_on_error(context_.comm(), [this] {  // while the exchanges that are under way still have their buffers
        schedule_.for_each([this](const Step& step) { step.kind == StepKind::gemm ? multiply(step) : begin(step); });
      });
    }
    if constexpr (!in_place) context_.backend().template combine<Out>(call_.beta, total_, call_.c);
  }

 private:
  struct Incoming {
    explicit Incoming(const Pooled<View<T>>& memory) : sends(memory), receives(memory) {}

    std::optional<Request> request;
    View<T> buffer;
    ProductList<View<const T>> sends;  // alive until the request is waited for
    ProductList<View<T>> receives;
  };

  [[nodiscard]] const MatrixOperand<T>& own(Operand operand) const { return operand == Operand::a ? call_.a : call_.b; }
  Incoming& incoming(Operand operand, index_t panel) {
    const auto places = static_cast<std::size_t>(2 * schedule_.lookahead());
    while (ring_.size() < places) ring_.emplace_back(memory_);
    return ring_[static_cast<std::size_t>(2 * (panel % schedule_.lookahead()) + (operand == Operand::b ? 1 : 0))];
  }

  void begin(const Step& step) {
    const Exchange exchange = schedule_.exchange(step.operand, schedule_.panel(step.panel));
    const bool transposed = own(step.operand).transposed;
    Incoming& in = incoming(step.operand, step.panel);
    const int slot = across_slots + 1 + static_cast<int>(&in - ring_.data());
    const Shape shape = transposed ? step.block.shape().transposed() : step.block.shape();
    in.buffer = View<T>(context_.template workspace<T>(slot, shape.size()), shape);
    in.sends.resize(static_cast<std::size_t>(step.ranks));
    in.receives.resize(static_cast<std::size_t>(step.ranks));
    exchanged_views(exchange, transposed, own(step.operand).stored, in.buffer, in.sends.data(), in.receives.data());
    in.request.emplace(
        context_.comm().all_to_all_v(std::span<const View<const T>>(in.sends), std::span<const View<T>>(in.receives)));
  }

  /// The part k of an operand: from a panel that has come in, or, where every rank holds what it needs, its own.
  MatrixOperand<T> arrived(Operand operand, const Step& step) {
    Incoming& in = incoming(operand, step.panel);
    MatrixOperand<T> found = own(operand);
    if (in.request) {
      in.request->wait();
      in.request.reset();
      found.stored = in.buffer;
      return found;
    }
    return held_part(found, schedule_.exchange(operand, step.k));
  }

  void multiply(const Step& step) {
    const MatrixOperand<T> a = arrived(Operand::a, step);
    const MatrixOperand<T> b = arrived(Operand::b, step);
    [[maybe_unused]] const auto turn = compute_turn(context_.comm());
    if (step.block.size() > 0) context_.backend().template gemm<T>(call_.alpha, a, b, total_);
  }

  const AcrossCall<T, Out, Ctx>& call_;
  const AcrossSchedule& schedule_;
  Ctx& context_;
  View<Acc> total_;
  Pooled<View<T>> memory_ = context_.template pooled<View<T>>();
  ProductList<Incoming> ring_ = ProductList<Incoming>(memory_);
};

/// Redistributed into scratch memory, then multiplied as the rule of the redistributed operands says.
template <class T, class Out, class Ctx>
void run_split_k(const AcrossCall<T, Out, Ctx>& call, const AcrossGeometry& g, const MatmulOptions& options) {
  Ctx& context = call.grid->context();
  const SplitK split(g);
  const auto moved = [&](const MatrixOperand<T>& operand, const Exchange& exchange, int slot) {
    if (exchange.local()) return held_part(operand, exchange);
    const Block wanted = exchange.wanted();
    const Shape shape = operand.transposed ? wanted.shape().transposed() : wanted.shape();
    MatrixOperand<T> out = operand;
    View<T> buffer(context.template workspace<T>(slot, shape.size()), shape);
    run_exchange<T>(context, exchange, operand.stored, buffer, operand.transposed);
    out.stored = buffer;
    return out;
  };
  ProductCall<T, Out, Ctx> product{call.grid, {}, {}, {}, {}, call.c, call.alpha, call.beta};
  const int self = context.rank();
  product.a_block = split.a.block({g.m, g.k}, self);
  product.b_block = split.b.block({g.k, g.n}, self);
  if (call.alpha != accumulate_t<T>(0)) {
    abort_on_error(context.comm(), [&] {
      product.a = moved(call.a, split.exchange_a(g, self), across_slots + 1);
      product.b = moved(call.b, split.exchange_b(g, self), across_slots + 2);
    });
  }
  run_product(product, split.plan, split.product(g, self), options);
}

}  // namespace detail

/// Runs a product by the route `panels` or `split_k`. Pre: shapes and aliasing are checked; options fit the route.
template <class T, class Out, class Ctx>
void run_across(const AcrossCall<T, Out, Ctx>& call, const AcrossGeometry& geometry, Route route,
                const MatmulOptions& options) {
  detail::compare_calls<T>(call, geometry.m, geometry.n, geometry.k,
                           [&] { return detail::hash_across(geometry, route, options); });
  if (route == Route::split_k) {
    detail::run_split_k(call, geometry, options);
  } else {
    detail::AcrossExecutor<T, Out, Ctx>(call, AcrossSchedule(geometry, call.grid->context().rank(), options)).run();
  }
}

}  // namespace partita
