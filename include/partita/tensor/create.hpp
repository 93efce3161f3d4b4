// SPDX-License-Identifier: Apache-2.0
// Making grids and tensors: from extents, from a function of the global index, at random, over the user's memory.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "partita/partition/names.hpp"
#include "partita/tensor/dist_tensor.hpp"
#include "partita/tensor/random.hpp"

namespace partita {

namespace detail {

/// The grid type that X is or stands on, and what messages call it.
template <class X>
struct GridTypeOf {
  using type = typename X::grid_type;
  static std::string name(const AxisValues& extents) { return policy_text(X::layout, type::names, extents); }
};
template <class... Axes>
struct GridTypeOf<Grid<Axes...>> {
  using type = Grid<Axes...>;
  static std::string name(const AxisValues&) { return {}; }
};

}  // namespace detail

/// Arranges the ranks of `context` as the grid of X: a Grid, or a partition (make_grid<Summa2D<2, 2>>(context)). The
/// dynamic extents of the grid are given in order: make_grid<Summa2D<>>(context, 2, 3).
/// Errors: GridError on all ranks. Communicates: three agreements.
template <class X, class Ctx, std::integral... Extents>
[[nodiscard]] auto make_grid(Ctx& context, Extents... extents) {
  using G = typename detail::GridTypeOf<X>::type;
  static_assert(G::axis_count >= 1);  // first of all, so that a grid that is refused is refused from here
  const std::array<int, sizeof...(Extents)> given{static_cast<int>(extents)...};
  return make_grid_of<G, Ctx>(context, given, detail::GridTypeOf<X>::name);
}

/// The handle on the same ranks with the extents of another type of the same grid: fixed for dynamic, or back.
/// Errors: GridError where a fixed extent is not the actual one (from agreed facts, so on all ranks).
template <class G, class From, class Ctx>
[[nodiscard]] GridHandle<G, Ctx> grid_as(const GridHandle<From, Ctx>& handle) {
  static_assert(grids_meet<G, From>, "the grids have other axes, or fixed extents that differ");
  for (int a = 0; a < G::axis_count; ++a) {
    const int actual = handle.ranks().extents()[static_cast<unsigned>(a)];
    if (G::extents[a] != dynamic && G::extents[a] != actual) {
      throw GridError("GridError: axis " + std::string(G::names[a]) + " has extent " + std::to_string(actual) +
                      ", the partition asks for " + std::to_string(G::extents[a]));
    }
  }
  return GridHandle<G, Ctx>(handle.shared());
}

/// A tensor of zeros with partition P. See DistTensor's constructor for errors and agreements.
template <class T, class P, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> zeros(const GridHandle<G, Ctx>& grid, Shape shape, Units units = {}) {
  return DistTensor<T, P, Ctx>(grid_as<typename P::grid_type>(grid), shape, units);
}

namespace detail {
/// Lets the host write a block's values: in place, or in memory of its own that is then copied to the device.
template <class BackendT, class T, class Write>
void fill(BackendT& backend, View<T> out, Write write) {
  if constexpr (host_memory_v<BackendT>) {
    write(out);
  } else {
    const auto values = std::make_unique<T[]>(static_cast<std::size_t>(out.size()));
    const View<T> host(values.get(), out.shape());
    write(host);
    backend.sync();  // which notices failed peers, where the copy would wait for them
    backend.template copy<T>(host, out);
  }
}

/// Lets the host read a block's values: in place, or in memory of its own into which they are copied.
template <class Ctx, class T, class Read>
void read_on_host(Ctx& context, View<const T> in, Read read) {
  if constexpr (host_memory_v<typename Ctx::backend_type>) {
    read(in);
  } else {
    const auto values = std::make_unique<T[]>(static_cast<std::size_t>(in.size()));
    const View<T> host(values.get(), in.shape());
    context.sync();  // which notices failed peers, where the copy would wait for them
    context.backend().template copy<T>(in, host);
    context.sync();
    read(View<const T>(host));
  }
}
}  // namespace detail

/// Element (i, j) is f(i, j), i and j global. Every rank evaluates its own block only, on the host.
template <class T, class P, class G, class Ctx, class F>
  requires std::invocable<F&, index_t, index_t>
[[nodiscard]] DistTensor<T, P, Ctx> from_function(const GridHandle<G, Ctx>& grid, Shape shape, F f, Units units = {}) {
  auto tensor = DistTensor<T, P, Ctx>(grid_as<typename P::grid_type>(grid), shape, units);
  const Block block = tensor.block();
  detail::fill(tensor.context().backend(), tensor.local(), [&](View<T> local) {
    for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
      for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
        local(i - block.rows.begin, j - block.cols.begin) = static_cast<T>(f(i, j));
      }
    }
  });
  return tensor;
}

/// Uniform in [low, high), both parts of a complex number; the same global matrix under every partition.
template <MatmulScalar T, class P, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> random_uniform(const GridHandle<G, Ctx>& grid, Shape shape, std::uint64_t seed,
                                                   double low = -1, double high = 1, Units units = {}) {
  return from_function<T, P>(
      grid, shape,
      [=](index_t i, index_t j) {
        const auto draw = [&](std::uint32_t lane) { return low + (high - low) * random_unit(seed, i, j, lane); };
        if constexpr (is_complex_v<T>) {
          using R = typename T::value_type;
          return T(static_cast<R>(draw(0)), static_cast<R>(draw(1)));
        } else {
          return static_cast<T>(static_cast<accumulate_t<T>>(draw(0)));
        }
      },
      units);
}

/// A tensor over this rank's block in memory that the user owns; nothing is copied. Memory that tensors of one rank
/// share is found (see DistTensor::identity); memory that different ranks share is the user's to keep apart.
template <class P, class T, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> wrap(const GridHandle<G, Ctx>& grid, Shape shape, T* block, index_t ld,
                                         Units units = {}) {
  auto handle = grid_as<typename P::grid_type>(grid);
  Shape local;
  if (shape.rows >= 0 && shape.cols >= 0 && units.rows >= 1 && units.cols >= 1) {  // else the constructor objects
    local = block_of(P::layout, shape, units, handle.ranks().extents(), handle.ranks().coordinates()).shape();
  }
  return DistTensor<T, P, Ctx>(std::move(handle), shape, View<T>(block, local.rows, local.cols, ld), units);
}

/// A dense matrix of the kind of Eigen's: Eigen::Map, Eigen::Matrix and Eigen::Ref fit.
template <class M>
concept RowMajorMatrix = requires(std::remove_cvref_t<M> m) {
  m.data();
  { m.rows() } -> std::convertible_to<index_t>;
  { m.cols() } -> std::convertible_to<index_t>;
  { m.outerStride() } -> std::convertible_to<index_t>;
  { static_cast<bool>(std::remove_cvref_t<M>::IsRowMajor) };
  { static_cast<int>(std::remove_cvref_t<M>::InnerStrideAtCompileTime) } -> std::same_as<int>;
};

/// A tensor over this rank's block, held by an Eigen matrix, map or reference. Column-major data enters as the
/// transposed tensor: wrap its transpose, and multiply with transposed(tensor).
template <class P, RowMajorMatrix M, class G, class Ctx>
[[nodiscard]] auto wrap(const GridHandle<G, Ctx>& grid, Shape shape, M&& block, Units units = {}) {
  static_assert(std::remove_cvref_t<M>::IsRowMajor,
                "wrap(): blocks are row-major; wrap the transpose of column-major data and use transposed(tensor)");
  static_assert(std::remove_cvref_t<M>::InnerStrideAtCompileTime == 1, "wrap(): the elements of a row stand together");
  using T = std::remove_pointer_t<decltype(block.data())>;
  return DistTensor<T, P, Ctx>(grid_as<typename P::grid_type>(grid), shape,
                               View<T>(block.data(), block.rows(), block.cols(), block.outerStride()), units);
}

}  // namespace partita
