// SPDX-License-Identifier: Apache-2.0
// What every communicator must do, as one check that runs on any model of the concept, any number of ranks.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/comm/concepts.hpp"

namespace partita::laws {

/// The value of element i that rank r contributes: small integers, so that every sum is exact.
template <class T>
[[nodiscard]] T element(int r, index_t i) {
  const auto x = static_cast<double>((i * 7 + r * 13) % 31) - 11.0;
  if constexpr (is_complex_v<T>) {
    return T(static_cast<typename T::value_type>(x), static_cast<typename T::value_type>((i + r) % 5));
  } else {
    return static_cast<T>(x);
  }
}

/// A rows × cols view with gaps of `gap` elements after each row, and what stands in the gaps.
template <class T>
class Strided {
 public:
  Strided(index_t rows, index_t cols, index_t gap = 2)
      : memory_(static_cast<std::size_t>(rows * (cols + gap) + 1), filler()),
        view_{memory_.data(), rows, cols, cols + gap} {}
  Strided(const Strided&) = delete;
  Strided& operator=(const Strided&) = delete;

  [[nodiscard]] View<T> view() const { return view_; }
  void fill(int r, index_t offset = 0) {
    for (index_t i = 0; i < view_.size(); ++i) view_(i / view_.cols, i % view_.cols) = element<T>(r, i + offset);
  }
  /// Whether each element is f(i), i in row-major order, and nothing beside the view was written.
  template <class F>
  [[nodiscard]] bool holds(F f) const {
    bool right = memory_.back() == filler();
    for (index_t i = 0; i < view_.rows; ++i) {
      for (index_t j = 0; j < view_.ld; ++j) {
        const T wanted = j < view_.cols ? f(i * view_.cols + j) : filler();
        right = right && memory_[static_cast<std::size_t>(i * view_.ld + j)] == wanted;
      }
    }
    return right;
  }

 private:
  [[nodiscard]] static T filler() { return static_cast<T>(-77); }
  std::vector<T> memory_;
  View<T> view_;
};

template <class T>
[[nodiscard]] T total(int ranks, index_t i) {
  T sum = element<T>(0, i);
  for (int r = 1; r < ranks; ++r) sum += element<T>(r, i);
  return sum;
}

/// Column blocks of a matrix with `rows` rows: rank r has (r * 2 + shift) mod 4 columns, some of them none.
[[nodiscard]] inline std::vector<Block> column_blocks(int ranks, index_t rows, int shift) {
  std::vector<Block> blocks;
  index_t begin = 0;
  for (int r = 0; r < ranks; ++r) {
    const index_t width = (r * 2 + shift + r / 3) % 4;
    blocks.push_back({{0, rows}, {begin, begin + width}});
    begin += width;
  }
  return blocks;
}

/// Asserts with the rank and what was done; cheap when right.
inline void expect(bool right, const char* what, int rank) {
  if (!right) FAIL(std::string(what), " is wrong on rank ", rank);
}

template <class T, class C>
void check_broadcasts(C& comm, index_t rows, index_t cols) {
  const int rank = comm.rank();
  for (int root = 0; root < comm.size(); ++root) {
    Strided<T> x(rows, cols);
    x.fill(rank);
    const Traffic before = comm.traffic();
    comm.broadcast(x.view(), root).wait();
    expect(x.holds([&](index_t i) { return element<T>(root, i); }), "broadcast", rank);
    const bool moved = rank != root && rows * cols > 0 && comm.size() > 1;
    const index_t n = moved ? rows * cols : 0;
    const Traffic wanted{moved ? 1 : 0, n, n * static_cast<index_t>(sizeof(T))};
    expect(comm.traffic() - before == wanted, "traffic of broadcast", rank);

    Strided<T> lent(rows, cols);
    Strided<T> buffer(rows, cols, 0);
    lent.fill(rank, 3);
    {
      auto panel = comm.broadcast_panel(lent.view(), buffer.view(), root);
      panel.wait();
      const View<const T> seen = panel.view();
      expect(seen.shape() == Shape{rows, cols}, "shape of a panel", rank);
      bool right = true;
      for (index_t i = 0; i < seen.size(); ++i) {
        right = right && seen(i / cols, i % cols) == element<T>(root, i + 3);
      }
      expect(right, "panel", rank);
      auto moved_panel = std::move(panel);
      moved_panel.release();
      moved_panel.release();
    }
    comm.drain();
    lent.fill(rank, 4);  // nobody reads it any more
  }
}

template <class T, class C>
void check_sums(C& comm, index_t rows, index_t cols) {
  const int rank = comm.rank();
  const int size = comm.size();
  const auto sum = [size](index_t i) { return total<T>(size, i); };
  for (int root = 0; root < size; ++root) {
    Strided<T> in(rows, cols, 1);
    Strided<T> out(rows, cols, 3);
    in.fill(rank);
    out.fill(50);
    comm.reduce(in.view(), out.view(), root, Into::accumulate).wait();
    const auto wanted = [&](index_t i) {
      return rank == root ? static_cast<T>(element<T>(50, i) + sum(i)) : element<T>(50, i);
    };
    expect(out.holds(wanted), "reduce, accumulated", rank);
    comm.reduce(in.view(), in.view(), root, Into::overwrite).wait();
    expect(in.holds([&](index_t i) { return rank == root ? sum(i) : element<T>(rank, i); }), "reduce in place", rank);
  }
  Strided<T> in(rows, cols, 1);
  Strided<T> out(rows, cols, 0);
  in.fill(rank);
  comm.all_reduce(in.view(), out.view()).wait();
  expect(out.holds(sum), "all_reduce", rank);
  expect(in.holds([&](index_t i) { return element<T>(rank, i); }), "input of all_reduce", rank);
  comm.all_reduce(in.view(), in.view(), ReduceOp::sum).wait();
  expect(in.holds(sum), "all_reduce in place", rank);
  if constexpr (std::is_arithmetic_v<T>) {
    in.fill(rank);
    comm.all_reduce(in.view(), out.view(), ReduceOp::max).wait();
    const auto largest = [size](index_t i) {
      T best = element<T>(0, i);
      for (int r = 1; r < size; ++r) best = std::max(best, element<T>(r, i));
      return best;
    };
    expect(out.holds(largest), "maximum", rank);
  }
}

/// Gathers and scatters of columns, so that blocks are rectangles with gaps.
template <class T, class C>
void check_blocks(C& comm, index_t rows, int shift) {
  const int rank = comm.rank();
  const int size = comm.size();
  const std::vector<Block> blocks = column_blocks(size, rows, shift);
  const Block own = blocks[static_cast<std::size_t>(rank)];
  const index_t cols = blocks.back().cols.end;
  Strided<T> whole(rows, cols);
  Strided<T> part(rows, own.cols.size());
  whole.fill(rank);
  comm.reduce_scatter(whole.view(), part.view(), blocks).wait();
  const auto at = [&](index_t i) { return i / own.cols.size() * cols + own.cols.begin + i % own.cols.size(); };
  expect(part.holds([&](index_t i) { return total<T>(size, at(i)); }), "reduce_scatter", rank);

  const Traffic before = comm.traffic();
  whole.fill(99);
  comm.all_gather(part.view(), whole.view(), blocks).wait();
  expect(whole.holds([&](index_t i) { return total<T>(size, i); }), "all_gather", rank);
  Traffic wanted;
  for (int r = 0; r < size; ++r) {
    const index_t n = blocks[static_cast<std::size_t>(r)].size();
    if (r != rank && n > 0) wanted.add(1, n, sizeof(T));
  }
  expect(comm.traffic() - before == wanted, "traffic of all_gather", rank);

  // In place: the own block stands where it belongs.
  Strided<T> again(rows, cols);
  again.fill(rank);
  comm.all_gather(again.view().sub(own), again.view(), blocks).wait();
  const auto owner_of = [&](index_t i) {
    int r = 0;
    while (!blocks[static_cast<std::size_t>(r)].cols.contains(i % cols)) ++r;
    return r;
  };
  expect(again.holds([&](index_t i) { return element<T>(owner_of(i), i); }), "all_gather in place", rank);
}

/// Rank r sends (r + 2q) mod 3 rows to rank q.
template <class T, class C>
void check_exchange(C& comm, index_t cols) {
  const int rank = comm.rank();
  const auto size = static_cast<std::size_t>(comm.size());
  const auto rows = [](int from, int to) { return static_cast<index_t>((from + 2 * to) % 3); };
  std::vector<std::unique_ptr<Strided<T>>> kept;
  std::vector<View<const T>> sends;
  std::vector<View<T>> receives;
  for (int r = 0; r < comm.size(); ++r) {
    kept.push_back(std::make_unique<Strided<T>>(rows(rank, r), cols, 1));
    kept.back()->fill(rank, r);
    sends.push_back(kept.back()->view());
  }
  for (int r = 0; r < comm.size(); ++r) {
    kept.push_back(std::make_unique<Strided<T>>(rows(r, rank), cols, 3));
    receives.push_back(kept.back()->view());
  }
  comm.all_to_all_v(std::span<const View<const T>>(sends), std::span<const View<T>>(receives)).wait();
  for (int r = 0; r < comm.size(); ++r) {
    const auto& got = *kept[size + static_cast<std::size_t>(r)];
    expect(got.holds([&](index_t i) { return element<T>(r, i + rank); }), "all_to_all_v", rank);
  }
}

/// A ring of messages with two tags, received in the other order of the tags where tags
/// matter; then to itself.
template <class T, class C>
void check_messages(C& comm, index_t rows, index_t cols) {
  using Request = typename C::Request;
  const int rank = comm.rank();
  const int size = comm.size();
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  Strided<T> a(rows, cols);
  Strided<T> b(rows, cols, 0);
  Strided<T> c(rows, cols, 1);
  Strided<T> got_a(rows, cols, 0);
  Strided<T> got_b(rows, cols);
  Strided<T> got_c(rows, cols);
  a.fill(rank, 1);
  b.fill(rank, 2);
  c.fill(rank, 5);
  auto send_a = comm.send(View<const T>(a.view()), right, 1);
  auto send_b = comm.send(b.view(), right, 2);
  auto send_c = comm.send(c.view(), right, 1);
  Request recv_a;
  if (messages_in_order<C>) recv_a = comm.recv(got_a.view(), left, 1);
  auto recv_b = comm.recv(got_b.view(), left, 2);
  if (!messages_in_order<C>) recv_a = comm.recv(got_a.view(), left, 1);
  auto recv_c = comm.recv(got_c.view(), left, 1);
  recv_c.wait();
  send_b.wait();
  recv_b.wait();
  recv_a.wait();
  send_a.wait();
  send_c.wait();
  expect(got_a.holds([&](index_t i) { return element<T>(left, i + 1); }), "first message", rank);
  expect(got_b.holds([&](index_t i) { return element<T>(left, i + 2); }), "message of another tag", rank);
  expect(got_c.holds([&](index_t i) { return element<T>(left, i + 5); }), "second message", rank);
  auto to_self = comm.recv(a.view(), rank, 7);
  comm.send(b.view(), rank, 7).wait();
  to_self.wait();
  expect(a.holds([&](index_t i) { return element<T>(rank, i + 2); }), "message to itself", rank);
}

/// Several operations at once, completed in orders that differ from rank to rank.
template <class T, class C>
void check_pending(C& comm) {
  const int rank = comm.rank();
  const int size = comm.size();
  Strided<T> x(2, 3);
  Strided<T> y(3, 1);
  Strided<T> z(1, 5);
  Strided<T> z_sum(1, 5);
  Strided<T> lent(2, 2);
  Strided<T> buffer(2, 2);
  x.fill(rank);
  y.fill(rank);
  z.fill(rank);
  lent.fill(rank);
  const int last = size - 1;
  auto first = comm.all_reduce(x.view(), x.view());
  auto panel = comm.broadcast_panel(lent.view(), buffer.view(), 0);
  auto second = comm.broadcast(y.view(), last);
  auto third = comm.reduce(z.view(), z_sum.view(), last / 2);
  if (rank % 2 == 0) {
    third.wait();
    second.wait();
    panel.wait();
    first.wait();
  } else {
    first.wait();
    third.wait();
    second.wait();
    panel.wait();
  }
  expect(x.holds([&](index_t i) { return total<T>(size, i); }), "pending all_reduce", rank);
  expect(y.holds([&](index_t i) { return element<T>(last, i); }), "pending broadcast", rank);
  if (rank == last / 2) expect(z_sum.holds([&](index_t i) { return total<T>(size, i); }), "pending reduce", rank);
  expect(panel.view()(1, 1) == element<T>(0, 3), "pending panel", rank);
  first.wait();  // twice is harmless
  panel.release();
  comm.drain();
}

template <class T, class C>
void check_type(C& comm) {
  for (const Shape s : {Shape{3, 5}, Shape{1, 1}, Shape{0, 4}, Shape{4, 0}, Shape{7, 1}, Shape{1, 13}}) {
    check_broadcasts<T>(comm, s.rows, s.cols);
    check_sums<T>(comm, s.rows, s.cols);
    check_messages<T>(comm, s.rows, s.cols);
  }
  for (int shift = 0; shift < 4; ++shift) check_blocks<T>(comm, 3, shift);
  check_blocks<T>(comm, 0, 1);
  check_exchange<T>(comm, 3);
  check_exchange<T>(comm, 0);
  check_pending<T>(comm);
}

template <class C>
void check_control(C& comm) {
  const int rank = comm.rank();
  const int size = comm.size();
  const Traffic before = comm.traffic();
  comm.barrier();
  expect(comm.agree(rank * 3 - 5) == (size - 1) * 3 - 5, "agree", rank);
  // Two colours and one rank that joins none; keys reverse the order.
  const int color = rank == 2 ? -1 : rank % 2;
  std::optional<C> part = comm.split(color, -rank);
  expect(part.has_value() == (color >= 0), "split", rank);
  std::vector<int> members;
  for (int r = size - 1; r >= 0; --r) {
    if (r != 2 && r % 2 == rank % 2) members.push_back(r);
  }
  if (part) {
    expect(part->size() == static_cast<int>(members.size()), "size of a part", rank);
    expect(members[static_cast<std::size_t>(part->rank())] == rank, "rank in a part", rank);
    expect(part->agree(rank) == members.front(), "agree in a part", rank);
  }
  expect(comm.traffic() - before == Traffic{}, "control traffic", rank);
  const int half = (size + 1) / 2;
  std::optional<C> front = comm.subset(half);
  expect(front.has_value() == (rank < half), "subset", rank);
  if (front) {
    double x = rank;
    front->all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
    expect(x == half * (half - 1) / 2.0 && front->rank() == rank, "sum over a subset", rank);
    std::optional<C> one = front->split(rank, 0);
    expect(one.has_value() && one->size() == 1, "part of a part", rank);
  }
  comm.barrier();
  const Memory memory = comm.allocate(1000);
  expect(reinterpret_cast<std::uintptr_t>(memory.get()) % 64 == 0, "alignment", rank);
  const Memory nothing = comm.allocate(0);
}

/// A rank's own wrong arguments throw before anything is posted, and the communicator stays usable.
template <class C>
void check_misuse(C& comm) {
  std::array<double, 16> a{};
  std::array<double, 16> b{};
  const auto in = View<const double>(row_view(a.data(), 4));
  const auto out = row_view(b.data(), 4);
  const auto overlapping = row_view(a.data() + 3, 4);
  const int size = comm.size();
  const auto ranks = static_cast<std::size_t>(size);
  CHECK_THROWS_AS(comm.broadcast(out, size).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.broadcast(out, -1).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.broadcast_panel(in, out, size).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.reduce(in, out, size, Into::overwrite).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.send(in, size, 0).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.recv(out, -1, 0).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.all_reduce(in, row_view(b.data(), 3), ReduceOp::sum).wait(), ShapeError);
  CHECK_THROWS_AS(comm.all_reduce(in, overlapping, ReduceOp::sum).wait(), AliasError);
  CHECK_THROWS_AS(comm.all_reduce(in, View<double>(nullptr, 1, 4, 4), ReduceOp::sum).wait(), ShapeError);
  const std::vector<Block> blocks(ranks, Block{{0, 1}, {0, 4}});
  const std::vector<Block> outside(ranks, Block{{0, 1}, {2, 6}});
  const std::vector<Block> too_many(ranks + 1, Block{{0, 1}, {0, 4}});
  CHECK_THROWS_AS(comm.reduce_scatter(in, out, too_many).wait(), ArgumentError);
  CHECK_THROWS_AS(comm.reduce_scatter(in, out, outside).wait(), ShapeError);
  CHECK_THROWS_AS(comm.reduce_scatter(in, row_view(b.data(), 3), blocks).wait(), ShapeError);
  CHECK_THROWS_AS(comm.reduce_scatter(in, overlapping, blocks).wait(), AliasError);
  CHECK_THROWS_AS(comm.all_gather(in, overlapping, blocks).wait(), AliasError);
  CHECK_THROWS_AS(comm.all_gather(row_view(a.data(), 3), out, blocks).wait(), ShapeError);
  const std::vector<View<const double>> sends(ranks, in);
  const std::vector<View<double>> clash(ranks, overlapping);
  const std::vector<View<double>> short_list(ranks - 1, out);
  CHECK_THROWS_AS(comm.all_to_all_v(std::span(sends), std::span<const View<double>>(clash)).wait(), AliasError);
  CHECK_THROWS_AS(comm.all_to_all_v(std::span(sends), std::span<const View<double>>(short_list)).wait(), ArgumentError);
  CHECK_THROWS_AS(static_cast<void>(comm.subset(0)), ArgumentError);
  CHECK_THROWS_AS(static_cast<void>(comm.subset(size + 1)), ArgumentError);
  CHECK_THROWS_AS(static_cast<void>(comm.allocate(~std::size_t{0})), CapacityError);
  std::complex<float> z{1, 1};
  CHECK_THROWS_AS(comm.all_reduce(row_view(&z, 1), row_view(&z, 1), ReduceOp::max).wait(), ArgumentError);
  double x = 1;
  comm.all_reduce(row_view(&x, 1), row_view(&x, 1), ReduceOp::sum).wait();
  expect(x == size, "all_reduce after misuse", comm.rank());
}

/// The whole law, as one rank.
template <class C>
void check_communicator(C& comm) {
  check_type<float>(comm);
  check_type<double>(comm);
  check_type<std::complex<float>>(comm);
  check_type<std::complex<double>>(comm);
  check_type<std::int64_t>(comm);
  check_type<std::int32_t>(comm);
  check_control(comm);
  check_misuse(comm);
  comm.barrier();
}

}  // namespace partita::laws
