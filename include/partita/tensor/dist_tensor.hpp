// SPDX-License-Identifier: Apache-2.0
// A global matrix of which each rank of a grid holds a block, as its partition says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"
#include "partita/grid/process_grid.hpp"
#include "partita/partition/blocks.hpp"
#include "partita/partition/partition.hpp"
#include "partita/tensor/memory_identity.hpp"

namespace partita {

namespace detail {
/// Every element = T{}.
template <class BackendT, class T>
void clear(BackendT& backend, View<T> out) {
  if constexpr (host_memory_v<BackendT>) {
    for (index_t i = 0; i < out.rows && !out.empty(); ++i) std::fill_n(out.row(i), out.cols, T{});
  } else {
    static_assert(std::is_arithmetic_v<T> || MatmulScalar<T>, "on a device only numbers are set to zero");
    backend.clear(out);
  }
}
}  // namespace detail

/// The part of an operand's type that says how it is stored.
enum class Orientation { as_stored, transposed, adjoint };

/// A tensor, or its transpose, seen by a product: no memory of its own. P is the partition of the logical matrix.
/// Must not outlive the tensor.
template <class T, class P, class Ctx>
struct TensorView {
  using value_type = T;
  using partition = P;
  using context_type = Ctx;

  GridHandle<typename P::grid_type, Ctx> grid;
  Shape shape;  // logical
  Units units;
  View<const T> stored;
  Orientation orientation = Orientation::as_stored;
  MemoryIdentity identity;

  /// The global rectangle that this rank holds, in logical coordinates.
  [[nodiscard]] Block block() const {
    return block_of(P::layout, shape, units, grid.ranks().extents(), grid.ranks().coordinates());
  }
};

/// A matrix of `shape()` elements of T, laid out by the partition P over the ranks of a grid. T is any trivially
/// copyable type, const where the memory is the user's and is only read; blocks are row-major with a leading dimension.
/// Tensors move; a copy is clone(), and one that was moved from may only be assigned to or destroyed. Construction is
/// collective over the grid and is agreed: where one rank fails, all throw the same typed error.
template <class T, class P, class Ctx>
class DistTensor {
  static_assert(is_partition_v<P>, "DistTensor<T, P, Ctx>: P must be a partita::Partition");
  static_assert(std::is_trivially_copyable_v<T>, "DistTensor<T, P, Ctx>: T must be trivially copyable");

 public:
  using value_type = T;
  using partition = P;
  using context_type = Ctx;
  using grid_handle = GridHandle<typename P::grid_type, Ctx>;

  /// A tensor of zeros. `units`: the row and column counts at whose multiples alone it may be cut.
  /// Errors, on all ranks: ShapeError for a negative size, a unit below 1, or ranks that disagree; CapacityError.
  /// Communicates: two agreements.
  DistTensor(grid_handle grid, Shape shape, Units units = {}) : grid_(std::move(grid)), shape_(shape), units_(units) {
    agree_on_shape({});
    allocate();
    detail::clear(context().backend(), local_);
  }

  /// A tensor over memory that the user owns and keeps alive: this rank's block is `block`, whose rows stand `block.ld`
  /// elements apart. Nothing is copied. Memory that another tensor uses too is found: see identity().
  /// Errors, on all ranks: ShapeError where a rank's block has another shape than the partition gives it, no memory,
  /// rows that overlap, or an address that its device does not reach.
  /// Communicates: three agreements, and one more for each tensor that uses the same memory.
  DistTensor(grid_handle grid, Shape shape, View<T> block, Units units = {})
      : grid_(std::move(grid)), shape_(shape), units_(units) {
    std::string objection;
    if (shape.rows >= 0 && shape.cols >= 0 && units.rows >= 1 && units.cols >= 1) objection = objection_to(block);
    agree_on_shape(objection);
    local_ = block;
    const std::size_t bytes = spanned_bytes();
    identity_ = detail::identify(context(), local_.data, bytes);
    registration_ = context().enter(local_.data, bytes, identity_.own);
  }

  DistTensor(DistTensor&&) noexcept = default;
  DistTensor& operator=(DistTensor&&) noexcept = default;

  /// For a product that writes every element: a tensor whose values are not set. Sizes must be agreed already.
  /// Communicates: one agreement.
  [[nodiscard]] static DistTensor uninitialized(grid_handle grid, Shape shape, Units units) {
    return DistTensor(Unset{}, std::move(grid), shape, units);
  }

  /// Global rows and columns.
  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] Units units() const noexcept { return units_; }
  [[nodiscard]] const grid_handle& grid() const noexcept { return grid_; }
  [[nodiscard]] Ctx& context() const noexcept { return grid_.context(); }
  /// The global rectangle that this rank holds; may be empty.
  [[nodiscard]] Block block() const {
    return block_of(P::layout, shape_, units_, grid_.ranks().extents(), grid_.ranks().coordinates());
  }
  /// This rank's block: on a device an address of its memory.
  [[nodiscard]] View<T> local() noexcept { return local_; }
  [[nodiscard]] View<const T> local() const noexcept { return local_; }
  /// Tells whether tensors share memory on some rank; the same verdict on all ranks.
  [[nodiscard]] const MemoryIdentity& identity() const noexcept { return identity_; }

  [[nodiscard]] TensorView<std::remove_const_t<T>, P, Ctx> view() const {
    return {grid_, shape_, units_, local_, Orientation::as_stored, identity_};
  }
  /// A copy in memory of its own. Communicates: one agreement.
  [[nodiscard]] DistTensor clone() const {
    DistTensor copy = uninitialized(grid_, shape_, units_);
    context().backend().template copy<T>(local_, copy.local_);
    return copy;
  }

 private:
  struct Unset {};

  DistTensor(Unset, grid_handle grid, Shape shape, Units units) : grid_(std::move(grid)), shape_(shape), units_(units) {
    allocate();
  }

  /// One code for what all ranks must agree on.
  [[nodiscard]] index_t shape_code() const noexcept {
    std::uint64_t code = 0;
    for (const index_t x : {shape_.rows, shape_.cols, units_.rows, units_.cols}) {
      code = (code ^ static_cast<std::uint64_t>(x)) * 0x9E3779B97F4A7C15ULL;
      code ^= code >> 29;
    }
    return static_cast<index_t>(code >> 2);
  }

  void agree_on_shape(std::string objection) {
    const std::string asked = "DistTensor of " + to_string(shape_);
    if (shape_.rows < 0 || shape_.cols < 0) objection = "ShapeError: " + asked + ": sizes must be at least 0";
    if (units_.rows < 1 || units_.cols < 1) objection = "ShapeError: " + asked + ": units must be at least 1";
    // The largest code and the largest negated code of the ranks; they cancel where all codes are one. A rank that
    // objects sends a value that no code has.
    constexpr index_t bias = index_t{1} << 62;
    const index_t largest = context().comm().agree(objection.empty() ? shape_code() : bias + context().rank());
    const index_t least = -context().comm().agree(-shape_code());
    if (largest >= bias) throw ShapeError(detail::agree_on_objection(context().comm(), objection));
    if (largest != least) {
      throw ShapeError("ShapeError: the ranks disagree about a tensor's shape or units; this one has " + asked);
    }
  }

  [[nodiscard]] std::string objection_to(View<T> given) const {
    const Shape needed = block().shape();
    const std::string asked = "ShapeError: rank " + std::to_string(grid_.context().rank()) + " of a DistTensor of " +
                              to_string(shape_) + " holds a block of " + to_string(needed);
    if (given.shape() != needed) return asked + ", and was given one of " + to_string(given.shape());
    if (given.data == nullptr && !given.empty()) return asked + ", and was given a null pointer";
    if constexpr (requires { context().backend().reaches(given.data); }) {
      if (!given.empty() && !context().backend().reaches(given.data)) {
        return asked + ", and was given memory that its device does not reach; copy a tensor of the host with to()";
      }
    }
    constexpr index_t most = std::numeric_limits<index_t>::max() / static_cast<index_t>(sizeof(T));
    if (given.rows > 1 && (given.ld < given.cols || given.ld > most / given.rows)) {
      return asked + ", and was given a leading dimension of " + std::to_string(given.ld);
    }
    return {};
  }

  void allocate() {
    std::string objection;
    const Block mine = block();
    try {
      const index_t count = checked_product(mine.rows.size(), mine.cols.size());
      memory_ = context().template allocate<T>(count);
    } catch (const std::exception& error) {  // agreed below: peers must not go on into a collective alone
      objection = error.what();
    }
    detail::agree_or_throw<CapacityError>(context().comm(), objection);
    local_ = View<T>(reinterpret_cast<T*>(memory_.get()), mine.shape());
    identity_.own = context().next_identity();
    registration_ = context().enter(local_.data, spanned_bytes(), identity_.own);
  }

  [[nodiscard]] std::size_t spanned_bytes() const noexcept {
    if (local_.empty()) return 0;
    return static_cast<std::size_t>((local_.rows - 1) * local_.ld + local_.cols) * sizeof(T);
  }

  grid_handle grid_;
  Shape shape_;
  Units units_;
  Memory memory_;
  View<T> local_;
  MemoryIdentity identity_;
  typename Ctx::registration_type registration_;
};

namespace detail {
template <class X>
inline constexpr bool is_dist_tensor_v = false;
template <class T, class P, class Ctx>
inline constexpr bool is_dist_tensor_v<DistTensor<T, P, Ctx>> = true;
template <class X>
inline constexpr bool is_tensor_view_v = false;
template <class T, class P, class Ctx>
inline constexpr bool is_tensor_view_v<TensorView<T, P, Ctx>> = true;
}  // namespace detail

/// A DistTensor or a view of one.
template <class X>
concept TensorLike =
    detail::is_dist_tensor_v<std::remove_cvref_t<X>> || detail::is_tensor_view_v<std::remove_cvref_t<X>>;

template <class T, class P, class Ctx>
[[nodiscard]] auto as_view(const DistTensor<T, P, Ctx>& tensor) {
  return tensor.view();
}
template <class T, class P, class Ctx>
[[nodiscard]] TensorView<T, P, Ctx> as_view(const TensorView<T, P, Ctx>& view) {
  return view;
}

namespace detail {

/// The view turned over: rows and columns change places. A view that is turned back is as stored again; one that is
/// turned the other way would be a conjugate, which has no view.
template <TensorLike X>
[[nodiscard]] auto turned(const X& x, Orientation turn) {
  const auto v = as_view(x);
  using V = std::remove_cvref_t<decltype(v)>;
  if (v.orientation != Orientation::as_stored && v.orientation != turn) {
    throw ArgumentError("ArgumentError: the transpose of an adjoint view is a conjugate, which has no view");
  }
  return TensorView<typename V::value_type, transposed_t<typename V::partition>, typename V::context_type>{
      v.grid,
      v.shape.transposed(),
      v.units.transposed(),
      v.stored,
      v.orientation == Orientation::as_stored ? turn : Orientation::as_stored,
      v.identity};
}

}  // namespace detail

/// The transpose, as a view: nothing moves, and the partition's rows and columns change places.
/// Errors: ArgumentError for an adjoint view.
template <TensorLike X>
[[nodiscard]] auto transposed(const X& x) {
  return detail::turned(x, Orientation::transposed);
}

/// The conjugate transpose, as a view; for real scalars the same as transposed().
/// Errors: ArgumentError for a transposed view.
template <TensorLike X>
[[nodiscard]] auto adjoint(const X& x) {
  return detail::turned(x, Orientation::adjoint);
}

}  // namespace partita
