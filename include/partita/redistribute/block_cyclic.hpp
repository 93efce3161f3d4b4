// SPDX-License-Identifier: Apache-2.0
// ScaLAPACK's block-cyclic arrays: they come in as tensors, and tensors go out into them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "partita/redistribute/exchange.hpp"
#include "partita/redistribute/redistribute.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

/// A matrix dealt out in blocks of mb×nb over process_rows×process_cols processes, the first block to process
/// (row_source, col_source); each holds its blocks in column-major order with leading dimension lld (ScaLAPACK Users'
/// Guide, chapter 4). Process (r, c) is rank r·process_cols + c, or r + c·process_rows where `column_major_ranks`;
/// ranks beyond the process grid hold nothing.
struct BlockCyclic {
  Shape shape;
  index_t mb = 1;
  index_t nb = 1;
  int process_rows = 1;
  int process_cols = 1;
  int row_source = 0;
  int col_source = 0;
  bool column_major_ranks = false;

  /// From a ScaLAPACK descriptor (DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD) and the process grid of its context.
  /// Errors: ArgumentError where the descriptor is not one of a dense matrix.
  [[nodiscard]] static BlockCyclic from_descriptor(std::span<const int, 9> d, int process_rows, int process_cols,
                                                   bool column_major_ranks = false) {
    if (d[0] != 1) {
      throw ArgumentError("ArgumentError: a ScaLAPACK descriptor of type " + std::to_string(d[0]) +
                          "; only dense matrices (type 1) are dealt out block-cyclically here");
    }
    return {{d[2], d[3]}, d[4], d[5], process_rows, process_cols, d[6], d[7], column_major_ranks};
  }

  /// What is wrong with it for a communicator of `ranks`; empty where nothing is.
  [[nodiscard]] std::string objection(int ranks) const {
    if (shape.rows < 0 || shape.cols < 0 || mb < 1 || nb < 1 || process_rows < 1 || process_cols < 1) {
      return "a block-cyclic array needs sizes of at least 0 and blocks and process grids of at least 1";
    }
    if (mb > most_block || nb > most_block) {
      return "a block-cyclic array of blocks of " + std::to_string(mb) + "x" + std::to_string(nb) + "; at most " +
             std::to_string(most_block) + " rows and columns are possible";
    }
    if (row_source < 0 || row_source >= process_rows || col_source < 0 || col_source >= process_cols) {
      return "a block-cyclic array's source process (" + std::to_string(row_source) + ", " +
             std::to_string(col_source) + ") lies outside its grid of " + std::to_string(process_rows) + "x" +
             std::to_string(process_cols);
    }
    if (process_rows > ranks / process_cols) {
      return "a process grid of " + std::to_string(process_rows) + "x" + std::to_string(process_cols) +
             " needs more ranks than the communicator's " + std::to_string(ranks);
    }
    return {};
  }

  /// The global rows (columns) of a rank, in ascending order, within `window`.
  [[nodiscard]] std::vector<Range> rows_of(int rank, Range window) const {
    const int place = column_major_ranks ? rank % process_rows : rank / process_cols;
    return dealt(holds(rank) ? place : -1, window, shape.rows, mb, process_rows, row_source);
  }
  [[nodiscard]] std::vector<Range> cols_of(int rank, Range window) const {
    const int place = column_major_ranks ? rank / process_rows : rank % process_cols;
    return dealt(holds(rank) ? place : -1, window, shape.cols, nb, process_cols, col_source);
  }
  [[nodiscard]] bool holds(int rank) const noexcept { return rank < process_rows * process_cols; }
  /// The local array's rows and columns.
  [[nodiscard]] Shape local_shape(int rank) const {
    if (!holds(rank)) return {};
    const int r = column_major_ranks ? rank % process_rows : rank / process_cols;
    const int c = column_major_ranks ? rank / process_rows : rank % process_cols;
    return {dealt_count(r, shape.rows, mb, process_rows, row_source),
            dealt_count(c, shape.cols, nb, process_cols, col_source)};
  }
  /// Position of a global row (column) in the local array of the process that holds it.
  [[nodiscard]] index_t local_row(index_t i) const noexcept { return i / (mb * process_rows) * mb + i % mb; }
  [[nodiscard]] index_t local_col(index_t j) const noexcept { return j / (nb * process_cols) * nb + j % nb; }

  /// As large as a descriptor's numbers can be.
  static constexpr index_t most_block = (index_t{1} << 31) - 1;

 private:
  /// How many of n elements the place holds (ScaLAPACK's NUMROC).
  static index_t dealt_count(int place, index_t n, index_t block, int places, int source) noexcept {
    const index_t blocks = n / block;
    const int distance = (place - source + places) % places;
    const auto with_more = static_cast<int>(blocks % places);
    const index_t last = distance < with_more ? block : distance == with_more ? n % block : 0;
    return blocks / places * block + last;
  }

  static std::vector<Range> dealt(int place, Range window, index_t n, index_t block, int places, int source) {
    std::vector<Range> out;
    if (place < 0 || window.empty()) return out;
    const index_t first = (place - source + places) % places * block;
    const index_t period = block * places;
    const index_t rounds = window.begin > first + block ? (window.begin - first - block) / period : 0;
    for (index_t begin = first + rounds * period; begin < window.end && begin < n; begin += period) {
      const Range piece = intersect({begin, begin + block < n ? begin + block : n}, window);
      if (!piece.empty()) out.push_back(piece);
    }
    return out;
  }
};

/// The exchange between a block-cyclic array and a placement, seen from rank `self`: what each pair of ranks has in
/// common is a product of row and column intervals, packed row by row into one message.
class CyclicExchange {
 public:
  enum class Direction { to_tensor, to_array };

  CyclicExchange(const BlockCyclic& array, const Placement& tensor, int ranks, int self, Direction direction)
      : array_(array), tensor_(tensor), ranks_(ranks), self_(self), direction_(direction) {
    copy_axes_ = tensor.axes.without(tensor.layout.rows + tensor.layout.cols);
  }

  struct Piece {
    std::vector<Range> rows;
    std::vector<Range> cols;

    [[nodiscard]] index_t size() const noexcept {
      index_t m = 0;
      index_t n = 0;
      for (const Range r : rows) m += r.size();
      for (const Range c : cols) n += c.size();
      return m * n;
    }
    /// Calls f(i, j) for each global position, row by row.
    template <class F>
    void for_each(F f) const {
      for (const Range r : rows) {
        for (index_t i = r.begin; i < r.end; ++i) {
          for (const Range c : cols) {
            for (index_t j = c.begin; j < c.end; ++j) f(i, j);
          }
        }
      }
    }
  };

  /// What `receiver` takes from `sender`. Of a replicated tensor, an array's rank takes its part from the copy that
  /// shares its coordinates along the replicating axes.
  [[nodiscard]] Piece piece(int sender, int receiver) const {
    const bool out = direction_ == Direction::to_array;
    if (out && copy_of(sender) != copy_of(receiver)) return {};
    const Block block = tensor_.block(array_.shape, out ? sender : receiver);
    const int holder = out ? receiver : sender;
    if (block.rows.empty() || block.cols.empty()) return {};
    return {array_.rows_of(holder, block.rows), array_.cols_of(holder, block.cols)};
  }

  template <class F>
  void for_each(F&& f) const {
    Step step;
    step.kind = StepKind::all_to_all_v;
    step.axes = tensor_.axes;
    step.ranks = ranks_;
    step.self = self_;
    for (int sender = 0; sender < ranks_; ++sender) {
      const index_t n = sender == self_ ? 0 : piece(sender, self_).size();
      step.elements += n;
      step.messages += n > 0 ? 1 : 0;
    }
    f(step);
  }
  /// Elements of the buffers: everything is packed once on either side.
  [[nodiscard]] index_t workspace() const {
    index_t n = 0;
    for (int rank = 0; rank < ranks_; ++rank) n += piece(self_, rank).size() + piece(rank, self_).size();
    return n;
  }

 private:
  [[nodiscard]] int copy_of(int rank) const {
    return index_along(copy_axes_, tensor_.extents, tensor_.coordinates(rank));
  }

  BlockCyclic array_;
  Placement tensor_;
  int ranks_;
  int self_;
  Direction direction_;
  AxisList copy_axes_;
};

namespace detail {

/// Moves everything: read(i, j) gives an element on the sending side, write(i, j, x) takes one on the receiving side,
/// both on the host. Among devices, what is packed passes through their memory.
template <class T, class Ctx, class Read, class Write>
void run_cyclic(Ctx& context, const CyclicExchange& exchange, Read read, Write write) {
  std::vector<T> packed;
  index_t coming = 0;
  std::vector<Range> sent;  // of `packed`, and of what arrives: the part of each rank
  std::vector<Range> taken;
  for (int rank = 0; rank < context.size(); ++rank) {
    const auto begin = static_cast<index_t>(packed.size());
    exchange.piece(context.rank(), rank).for_each([&](index_t i, index_t j) { packed.push_back(read(i, j)); });
    sent.push_back({begin, static_cast<index_t>(packed.size())});
    taken.push_back({coming, coming + exchange.piece(rank, context.rank()).size()});
    coming = taken.back().end;
  }
  std::vector<T> arrived(static_cast<std::size_t>(coming));
  const auto move = [&](View<const T> from, View<T> to) {
    std::vector<View<const T>> sends;
    std::vector<View<T>> receives;
    for (const Range part : sent) sends.push_back(from.sub({{0, 1}, part}));
    for (const Range part : taken) receives.push_back(to.sub({{0, 1}, part}));
    context.comm().all_to_all_v(std::span<const View<const T>>(sends), std::span<const View<T>>(receives)).wait();
  };
  const auto leaving = row_view<const T>(packed.data(), static_cast<index_t>(packed.size()));
  if constexpr (host_memory_v<typename Ctx::backend_type>) {
    move(leaving, row_view(arrived.data(), coming));
  } else {
    const Memory out = context.template allocate<T>(leaving.cols);
    const Memory in = context.template allocate<T>(coming);
    const auto from = row_view(reinterpret_cast<T*>(out.get()), leaving.cols);
    const auto to = row_view(reinterpret_cast<T*>(in.get()), coming);
    context.backend().template copy<T>(leaving, from);
    move(from, to);
    read_on_host(context, View<const T>(to),
                 [&](View<const T> values) { std::copy_n(values.data, coming, arrived.data()); });
  }
  for (int rank = 0; rank < context.size(); ++rank) {
    auto next = arrived.begin() + taken[static_cast<std::size_t>(rank)].begin;
    exchange.piece(rank, context.rank()).for_each([&](index_t i, index_t j) { write(i, j, *next++); });
  }
}

/// All ranks agree that the array is sound and that each has memory for its part.
template <class Comm>
void agree_on_array(Comm& comm, const BlockCyclic& array, const void* local, index_t lld) {
  std::string objection = array.objection(comm.size());
  if (objection.empty()) {
    const Shape needed = array.local_shape(comm.rank());
    if (needed.size() > 0 && (local == nullptr || lld < needed.rows)) {
      objection = "rank " + std::to_string(comm.rank()) + " holds " + to_string(needed) +
                  " of a block-cyclic array and was given leading dimension " + std::to_string(lld) +
                  (local == nullptr ? " and a null pointer" : "");
    }
  }
  if (!objection.empty()) objection = "ShapeError: " + objection;
  agree_or_throw<ShapeError>(comm, objection);
}

}  // namespace detail

/// A tensor with partition P from a block-cyclic array, of which this rank holds the column-major part `local` with
/// leading dimension `lld`, in the memory of the host, also where the tensor lies on a device.
/// Errors, on all ranks: ShapeError, CapacityError.
/// Communicates: agreements, and one all_to_all_v in which an element that stays on its rank is not sent.
template <class P, class T, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> from_block_cyclic(const GridHandle<G, Ctx>& grid, const BlockCyclic& array,
                                                      const T* local, index_t lld, Units units = {}) {
  static_assert(P::layout.partial.empty(), "from_block_cyclic(): a matrix cannot be spread into a pending sum");
  auto& comm = grid.context().comm();
  detail::agree_on_array(comm, array, local, lld);
  DistTensor<T, P, Ctx> out(grid_as<typename P::grid_type>(grid), array.shape, units);
  const CyclicExchange exchange(array, detail::placement_of<P>(out.grid().ranks(), units), comm.size(), comm.rank(),
                                CyclicExchange::Direction::to_tensor);
  const Block block = out.block();
  detail::fill(grid.context().backend(), out.local(), [&](View<T> target) {
    detail::run_cyclic<T>(
        grid.context(), exchange,
        [&](index_t i, index_t j) { return local[array.local_col(j) * lld + array.local_row(i)]; },
        [&](index_t i, index_t j, T x) { target(i - block.rows.begin, j - block.cols.begin) = x; });
  });
  return out;
}

/// Writes a tensor into a block-cyclic array, the inverse of from_block_cyclic; elements of `local` between rows() and
/// lld are not touched. Errors and communication likewise.
template <class T, class P, class Ctx>
void to_block_cyclic(const DistTensor<T, P, Ctx>& x, const BlockCyclic& array, T* local, index_t lld) {
  static_assert(P::layout.partial.empty(), "to_block_cyclic(): the tensor is a pending sum; all_reduce it first");
  auto& comm = x.context().comm();
  if (array.shape != x.shape()) {
    throw ShapeError("ShapeError: to_block_cyclic() of a tensor of " + to_string(x.shape()) + " into an array of " +
                     to_string(array.shape));
  }
  detail::agree_on_array(comm, array, local, lld);
  const CyclicExchange exchange(array, detail::placement_of<P>(x.grid().ranks(), x.units()), comm.size(), comm.rank(),
                                CyclicExchange::Direction::to_array);
  const Block block = x.block();
  detail::read_on_host(x.context(), x.local(), [&](View<const T> source) {
    detail::run_cyclic<T>(
        x.context(), exchange, [&](index_t i, index_t j) { return source(i - block.rows.begin, j - block.cols.begin); },
        [&](index_t i, index_t j, T v) { local[array.local_col(j) * lld + array.local_row(i)] = v; });
  });
}

}  // namespace partita
