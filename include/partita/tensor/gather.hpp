// SPDX-License-Identifier: Apache-2.0
// Between one whole matrix and its blocks: gather to every rank, scatter from one.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "partita/tensor/create.hpp"

namespace partita {

/// A whole row-major matrix in this rank's own memory.
template <class T>
struct Matrix {
  Shape shape;
  std::vector<T> elements;

  Matrix() = default;
  /// Elements that are T{}. Errors: CapacityError.
  explicit Matrix(Shape s) : shape(s) {
    const index_t count = checked_product(s.rows, s.cols);
    try {
      elements.resize(static_cast<std::size_t>(count));
    } catch (const std::exception&) {
      throw CapacityError("CapacityError: no memory for a matrix of " + to_string(s));
    }
  }

  [[nodiscard]] View<T> view() { return {elements.data(), shape}; }
  [[nodiscard]] View<const T> view() const { return {elements.data(), shape}; }
  [[nodiscard]] T& operator()(index_t i, index_t j) { return elements[static_cast<std::size_t>(i * shape.cols + j)]; }
  [[nodiscard]] const T& operator()(index_t i, index_t j) const {
    return elements[static_cast<std::size_t>(i * shape.cols + j)];
  }
};

namespace detail {

/// For each rank of the grid the rectangle that it sends: its block, or nothing where a lower rank holds the same.
template <class P, class Ctx>
std::vector<Block> blocks_by_rank(const ProcessGrid<Ctx>& grid, Shape shape, Units units, bool first_copies_only) {
  std::vector<Block> blocks;
  for (int rank = 0; rank < group_size(grid.axes(), grid.extents()); ++rank) {
    const AxisValues at = coordinates_along(grid.axes(), grid.extents(), rank);
    Block block = block_of(P::layout, shape, units, grid.extents(), at);
    for (const int axis : grid.axes()) {
      if (first_copies_only && !P::layout.names(axis) && at[static_cast<unsigned>(axis)] != 0) block = {};
    }
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace detail

/// The whole matrix, in the host memory of every rank, complete. A transposed view gives the transposed matrix only by
/// its stored tensor: gather that. Communicates: one all_gather over the grid; a rank receives what it does not hold.
template <class T, class P, class Ctx>
[[nodiscard]] Matrix<T> gather(const DistTensor<T, P, Ctx>& tensor) {
  static_assert(P::layout.partial.empty(),
                "gather(): the tensor is a pending sum; finish it with matmul<Result> first");
  ProcessGrid<Ctx>& grid = tensor.grid().ranks();
  Matrix<T> whole(tensor.shape());
  const std::vector<Block> blocks = detail::blocks_by_rank<P>(grid, tensor.shape(), tensor.units(), true);
  View<const T> mine = tensor.local();
  if (blocks[static_cast<std::size_t>(grid.context().rank())] != tensor.block()) mine = {};
  Ctx& context = grid.context();
  if constexpr (host_memory_v<typename Ctx::backend_type>) {
    context.comm().all_gather(mine, whole.view(), std::span<const Block>(blocks)).wait();
  } else {
    const Memory memory = context.template allocate<T>(whole.shape.size());
    const View<T> gathered(reinterpret_cast<T*>(memory.get()), whole.shape);
    context.comm().all_gather(mine, gathered, std::span<const Block>(blocks)).wait();
    detail::read_on_host(context, View<const T>(gathered),
                         [&](View<const T> values) { std::copy_n(values.data, values.size(), whole.elements.data()); });
  }
  return whole;
}

/// A tensor with partition P from the matrix `whole` in the host memory of rank `root`; other ranks' `whole` is not
/// read. Errors, on all ranks: ArgumentError for a root that is no rank; ShapeError where root's matrix has another
/// shape than all expect, or ranks name different roots. Communicates: the agreements of construction, and one
/// all_to_all_v in which root sends every rank its block.
template <class P, class T, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> scatter(const GridHandle<G, Ctx>& handle, Shape shape, View<const T> whole,
                                            int root, Units units = {}) {
  static_assert(P::layout.partial.empty(), "scatter(): a partition with a pending sum has no single decomposition");
  DistTensor<T, P, Ctx> tensor(grid_as<typename P::grid_type>(handle), shape, units);
  ProcessGrid<Ctx>& grid = tensor.grid().ranks();
  const bool is_root = grid.context().rank() == root;
  std::string objection;
  if (root < 0 || root >= grid.context().size()) {
    throw ArgumentError("ArgumentError: scatter() from root " + std::to_string(root) + ", the grid has ranks 0 to " +
                        std::to_string(grid.context().size() - 1));
  }
  if (grid.context().comm().agree(root) != -grid.context().comm().agree(-root)) {
    objection = "ArgumentError: scatter() from different roots; this rank asks for " + std::to_string(root);
  } else if (is_root && whole.data == nullptr && !whole.empty()) {
    objection = "ShapeError: scatter() of a matrix of " + to_string(shape) + ", and a null pointer on the root";
  } else if (is_root && whole.shape() != shape) {
    objection = "ShapeError: scatter() of a matrix of " + to_string(shape) + ", rank " + std::to_string(root) +
                " holds one of " + to_string(whole.shape());
  }
  detail::agree_or_throw<ShapeError>(grid.context().comm(), objection);
  const std::vector<Block> blocks = detail::blocks_by_rank<P>(grid, shape, units, false);
  std::vector<View<const T>> sends(blocks.size());
  std::vector<View<T>> receives(blocks.size());
  [[maybe_unused]] Memory on_device;
  if (is_root) {
    if constexpr (!host_memory_v<typename Ctx::backend_type>) {
      on_device = grid.context().template allocate<T>(whole.size());
      const View<T> copy(reinterpret_cast<T*>(on_device.get()), whole.shape());
      grid.context().backend().template copy<T>(whole, copy);
      whole = copy;
    }
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) sends[rank] = whole.sub(blocks[rank]);
  }
  receives[static_cast<std::size_t>(root)] = tensor.local();
  grid.context().comm().all_to_all_v(std::span<const View<const T>>(sends), std::span<const View<T>>(receives)).wait();
  return tensor;
}

}  // namespace partita
