// SPDX-License-Identifier: Apache-2.0
// ThreadComm: the laws, users' cases of collectives that went wrong elsewhere, and the limits of its rings.
#include "partita/comm/thread.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/comm/launch.hpp"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PARTITA_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define PARTITA_TEST_SANITIZED 1
#endif
#endif

namespace partita {
namespace {

#if defined(PARTITA_TEST_SANITIZED)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

TEST_CASE("ThreadComm obeys the communicator laws") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    CAPTURE(ranks);
    launch_threads(ranks, [](ThreadComm& comm) { laws::check_communicator(comm); });
  }
}

TEST_CASE("C01: collectives on a strided column touch the column alone") {
  launch_threads(3, [](ThreadComm& comm) {
    const int rank = comm.rank();
    std::array<double, 16> buffer{};
    buffer.fill(-1);
    const View<double> column(buffer.data() + 1, 4, 1, 4);
    const auto set = [&](double x) {
      for (index_t i = 0; i < 4; ++i) column(i, 0) = x;
    };
    const auto check = [&](double x) {
      for (std::size_t i = 0; i < 16; ++i) REQUIRE(buffer[i] == (i % 4 == 1 ? x : -1.0));
    };
    set(rank + 1);
    comm.all_reduce(column, column).wait();
    check(6);
    set(rank + 1);
    comm.broadcast(column, 2).wait();
    check(3);
    std::array<double, 12> gathered{};
    set(rank + 1);
    const std::vector<Block> blocks{{{0, 4}, {0, 1}}, {{0, 4}, {1, 2}}, {{0, 4}, {2, 3}}};
    comm.all_gather(column, View<double>(gathered.data(), Shape{4, 3}), blocks).wait();
    check(rank + 1);
    for (std::size_t i = 0; i < 12; ++i) REQUIRE(gathered[i] == static_cast<double>(i % 3 + 1));
  });
}

TEST_CASE("C04: blocks of columns are gathered side by side") {
  launch_threads(2, [](ThreadComm& comm) {
    const double r = 10.0 * comm.rank();
    const std::array<double, 4> own{r, r + 1, r + 2, r + 3};
    std::array<double, 8> all{};
    const std::vector<Block> blocks{{{0, 2}, {0, 2}}, {{0, 2}, {2, 4}}};
    comm.all_gather(View<const double>(own.data(), Shape{2, 2}), View<double>(all.data(), Shape{2, 4}), blocks).wait();
    REQUIRE(all == std::array<double, 8>{0, 1, 10, 11, 2, 3, 12, 13});
  });
  launch_threads(3, [](ThreadComm& comm) {
    const double r = 10.0 * comm.rank();
    const std::array<double, 4> own{r, r + 1, r + 2, r + 3};
    std::array<double, 8> all{};
    const std::vector<Block> blocks{{{0, 2}, {0, 1}}, {{0, 2}, {1, 3}}, {{0, 2}, {3, 4}}};
    const Shape shape = blocks[static_cast<std::size_t>(comm.rank())].shape();
    comm.all_gather(View<const double>(own.data(), shape), View<double>(all.data(), Shape{2, 4}), blocks).wait();
    REQUIRE(all == std::array<double, 8>{0, 10, 11, 20, 1, 12, 13, 21});
  });
}

TEST_CASE("C08: one buffer for both sides is summed in place, overlapping buffers are refused on all ranks") {
  launch_threads(4, [](ThreadComm& comm) {
    const int rank = comm.rank();
    std::array<double, 5> x{};
    x.fill(rank + 1);
    const View<double> view = row_view(x.data(), 4);
    comm.all_reduce(view, view).wait();
    REQUIRE(x == std::array<double, 5>{10, 10, 10, 10, rank + 1.0});

    std::array<double, 8> all{};
    std::vector<Block> blocks;
    for (int r = 0; r < 4; ++r) blocks.push_back({{0, 1}, {2 * r, 2 * r + 2}});
    const View<double> whole = row_view(all.data(), 8);
    const View<double> own = whole.sub(blocks[static_cast<std::size_t>(rank)]);
    own(0, 0) = 2 * rank;
    own(0, 1) = 2 * rank + 1;
    comm.all_gather(own, whole, blocks).wait();
    REQUIRE(all == std::array<double, 8>{0, 1, 2, 3, 4, 5, 6, 7});

    CHECK_THROWS_AS(comm.all_reduce(row_view(all.data(), 4), row_view(all.data() + 3, 4)).wait(), AliasError);
    REQUIRE(all == std::array<double, 8>{0, 1, 2, 3, 4, 5, 6, 7});
    const std::vector<View<const double>> sends(4, row_view(all.data(), 2));
    std::vector<View<double>> receives;
    for (int r = 0; r < 4; ++r) receives.push_back(row_view(all.data() + 2 * r, 2));
    CHECK_THROWS_AS(comm.all_to_all_v(std::span(sends), std::span<const View<double>>(receives)).wait(), AliasError);
    comm.barrier();
  });
}

TEST_CASE("C09: a rank that runs ahead or overwrites its buffer disturbs no slower peer") {
  const int rounds = sanitized ? 2000 : 100000;
  for (const int ranks : {2, 4, 8}) {
    launch_threads(ranks, [&](ThreadComm& comm) {
      const int rank = comm.rank();
      std::minstd_rand random(static_cast<unsigned>(rank + 1));
      std::vector<Block> blocks;
      for (int r = 0; r < ranks; ++r) blocks.push_back({{0, 1}, {r, r + 1}});
      std::vector<std::int64_t> all(static_cast<std::size_t>(ranks));
      for (std::int64_t i = 0; i < rounds; ++i) {
        std::int64_t x = 1000 * i + rank;
        std::int64_t sum = -1;
        comm.all_reduce(row_view(&x, 1), row_view(&sum, 1)).wait();
        x = -1;
        REQUIRE(sum == ranks * 1000 * i + ranks * (ranks - 1) / 2);
        if (random() % 8 == 0) std::this_thread::yield();
        if (i % 4 == 1) {
          const int root = static_cast<int>(i / 4 % ranks);
          std::int64_t y = rank == root ? i : -1;
          comm.broadcast(row_view(&y, 1), root).wait();
          REQUIRE(y == i);
          y = -2;
        }
        if (i % 4 == 3) {
          std::int64_t y = i * rank;
          comm.all_gather(row_view(&y, 1), row_view(all.data(), ranks), blocks).wait();
          y = -3;
          for (int r = 0; r < ranks; ++r) REQUIRE(all[static_cast<std::size_t>(r)] == i * r);
        }
        if (i % 8 == 5) {
          std::int64_t y = rank + i;
          const int root = static_cast<int>(i / 8 % ranks);
          comm.reduce(row_view(&y, 1), row_view(&sum, 1), root).wait();
          y = -4;
          if (rank == root) REQUIRE(sum == ranks * i + ranks * (ranks - 1) / 2);
        }
      }
    });
  }
}

template <class T>
std::vector<T> random_vector(int rank, index_t n) {
  std::mt19937 random(static_cast<unsigned>(rank * 7919 + 1));
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) x = static_cast<T>(static_cast<double>(random()) / 1e6 - 2000.0);
  return v;
}

TEST_CASE("D01: a sum has the bits of rank order, on every rank and in every run") {
  launch_threads(4, [](ThreadComm& comm) {
    const std::array<float, 4> values{1e8F, 1.0F, -1e8F, 1.0F};
    for (int i = 0; i < 100; ++i) {
      float x = values[static_cast<std::size_t>(comm.rank())];
      comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
      REQUIRE(x == 1.0F);  // ((1e8 + 1) - 1e8) + 1; another order gives 0 or 2
    }
  });
  const int repeats = sanitized ? 100 : 1000;
  for (const int ranks : {3, 4, 8}) {
    constexpr index_t n = 1000;
    std::vector<float> wanted = random_vector<float>(0, n);
    for (int r = 1; r < ranks; ++r) {
      const auto v = random_vector<float>(r, n);
      for (std::size_t i = 0; i < v.size(); ++i) wanted[i] += v[i];
    }
    launch_threads(ranks, [&](ThreadComm& comm) {
      const std::vector<float> own = random_vector<float>(comm.rank(), n);
      std::vector<float> sum(own.size());
      for (int i = 0; i < repeats; ++i) {
        if (i % ranks == comm.rank()) std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * 100));
        std::fill(sum.begin(), sum.end(), -1.0F);
        comm.all_reduce(View<const float>(own.data(), Shape{10, 100}), View<float>(sum.data(), Shape{10, 100})).wait();
        const bool same = std::equal(sum.begin(), sum.end(), wanted.begin(), [](float a, float b) {
          return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
        });
        REQUIRE(same);
      }
    });
  }
}

TEST_CASE("Sums over ranks keep rank order in reduce and reduce_scatter, accumulated ones after what stands there") {
  launch_threads(4, [](ThreadComm& comm) {
    const std::array<float, 4> values{1e8F, 1.0F, -1e8F, 1.0F};
    const float x = values[static_cast<std::size_t>(comm.rank())];
    for (int root = 0; root < 4; ++root) {
      float sum = 1e8F;
      comm.reduce(row_view(&x, 1), row_view(&sum, 1), root, Into::accumulate).wait();
      // (((1e8 + 1e8) + 1) - 1e8) + 1
      if (comm.rank() == root) REQUIRE(sum == 1e8F);
      float alone = x;
      comm.reduce(row_view(&alone, 1), row_view(&alone, 1), root).wait();
      if (comm.rank() == root) REQUIRE(alone == 1.0F);
    }
    std::vector<float> in(4, x);
    std::vector<Block> blocks;
    for (int r = 0; r < 4; ++r) blocks.push_back({{0, 1}, {r, r + 1}});
    const View<float> all = row_view(in.data(), 4);
    const View<float> own = all.sub(blocks[static_cast<std::size_t>(comm.rank())]);
    comm.reduce_scatter(all, own, blocks).wait();
    REQUIRE(own(0, 0) == 1.0F);
  });
}

TEST_CASE("Vectors longer than a tile, of odd length and with gaps, are summed right") {
  launch_threads(3, [](ThreadComm& comm) {
    constexpr index_t n = 3 * 4096 + 17;
    for (const Shape s : {Shape{1, n}, Shape{n, 1}, Shape{101, 123}}) {
      laws::Strided<std::int32_t> in(s.rows, s.cols, 1);
      laws::Strided<std::int32_t> out(s.rows, s.cols, 3);
      in.fill(comm.rank());
      comm.all_reduce(in.view(), out.view()).wait();
      REQUIRE(out.holds([](index_t i) { return laws::total<std::int32_t>(3, i); }));
      comm.reduce(in.view(), in.view(), 1).wait();
      if (comm.rank() == 1) REQUIRE(in.holds([](index_t i) { return laws::total<std::int32_t>(3, i); }));
    }
  });
}

TEST_CASE("Sums too long for the caches are right at both ends of every run, in place too, and touch nothing else") {
  launch_threads(3, [](ThreadComm& comm) {
    constexpr index_t rows = 3;
    constexpr index_t cols = 350003;
    constexpr index_t ld = cols + 7;
    static_assert(static_cast<std::size_t>(rows * cols) * sizeof(double) > detail::streamed_tiles_bytes);
    const auto value = [](int rank, index_t i, index_t j) { return static_cast<double>((rank + 1) * (i * cols + j)); };
    std::vector<double> in(static_cast<std::size_t>(rows * ld), -1.0);
    std::vector<double> out(in);
    const View<double> from(in.data() + 1, rows, cols, ld);
    const View<double> to(out.data() + 3, rows, cols, ld);
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < cols; ++j) from(i, j) = value(comm.rank(), i, j);
    }
    const auto check = [&](const std::vector<double>& memory, const View<double>& sums, index_t width) {
      index_t wrong = 0;
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < width; ++j) wrong += sums(i, j) == value(5, i, j) ? 0 : 1;
      }
      CHECK(wrong == 0);
      CHECK(std::count(memory.begin(), memory.end(), -1.0) == static_cast<index_t>(memory.size()) - rows * width);
    };
    comm.all_reduce(from, to).wait();
    check(out, to, cols);
    std::fill(out.begin(), out.end(), -1.0);
    std::vector<Block> blocks(3, Block{{0, rows}, {0, 0}});
    blocks[0].cols.end = cols - 2;
    blocks[1].cols = {cols - 2, cols - 1};
    blocks[2].cols = {cols - 1, cols};
    const View<double> own(out.data() + 3, rows, blocks[static_cast<std::size_t>(comm.rank())].cols.size(), ld);
    comm.reduce_scatter(from, own, blocks).wait();
    if (comm.rank() == 0) check(out, own, cols - 2);
    comm.all_reduce(from, from).wait();
    check(in, from, cols);
  });
}

/// An all-reduction of vectors whose outputs begin `shift(rank)` elements into a line of the cache, on `ranks` ranks.
template <class T, class ShiftOf>
void check_long_vectors(int ranks, ShiftOf shift) {
  constexpr index_t per_rank = static_cast<index_t>(detail::streamed_lines_bytes / sizeof(T)) + 77;
  launch_threads(ranks, [&](ThreadComm& comm) {
    const auto value = [](int rank, index_t i) { return T(static_cast<float>((rank + 1) * (i % 1009))); };
    const T guard(-1);
    std::vector<T> in(static_cast<std::size_t>(per_rank), guard);
    std::vector<T> out(static_cast<std::size_t>(per_rank) + 40, guard);
    for (index_t i = 0; i < per_rank; ++i) in[static_cast<std::size_t>(i)] = value(comm.rank(), i);
    const auto line = reinterpret_cast<std::uintptr_t>(out.data()) % 64 / sizeof(T);
    const auto begin = static_cast<index_t>((64 / sizeof(T) - line) + static_cast<std::size_t>(shift(comm.rank())));
    comm.all_reduce(row_view(in.data(), per_rank), row_view(out.data() + begin, per_rank)).wait();
    index_t wrong = 0;
    for (index_t i = 0; i < static_cast<index_t>(out.size()); ++i) {
      const bool inside = i >= begin && i < begin + per_rank;
      const T expected = inside ? value(ranks * (ranks + 1) / 2 - 1, i - begin) : guard;
      wrong += out[static_cast<std::size_t>(i)] == expected ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("Long vectors are summed line by line from wherever they begin, and where their lines differ") {
  const auto none = [](int) { return 0; };
  const auto same = [](int) { return 3; };
  const auto own = [](int rank) { return rank; };
  check_long_vectors<float>(3, none);
  check_long_vectors<float>(4, same);
  check_long_vectors<float>(8, same);
  check_long_vectors<float>(3, own);
  check_long_vectors<float>(9, none);
  check_long_vectors<std::complex<double>>(4, same);
  check_long_vectors<std::int32_t>(4, same);
}

TEST_CASE("A NaN survives a maximum whichever rank it comes from") {
  launch_threads(3, [](ThreadComm& comm) {
    for (int r = 0; r < 3; ++r) {
      double x = comm.rank() == r ? std::numeric_limits<double>::quiet_NaN() : 5.0 * comm.rank();
      comm.all_reduce(row_view(&x, 1), row_view(&x, 1), ReduceOp::max).wait();
      REQUIRE(x != x);
    }
  });
}

TEST_CASE("A panel shows the owner's memory, and drain waits until it is released") {
  launch_threads(3, [](ThreadComm& comm) {
    std::array<double, 4> block{1, 2, 3, 4};
    std::array<std::int64_t, 1> address{reinterpret_cast<std::int64_t>(block.data())};
    comm.broadcast(row_view(address.data(), 1), 0).wait();
    for (int round = 0; round < 50; ++round) {
      block.fill(round);
      auto panel = comm.broadcast_panel(row_view(block.data(), 4), View<double>(nullptr, 1, 4, 4), 0);
      panel.wait();
      REQUIRE(reinterpret_cast<std::int64_t>(panel.view().data) == address[0]);
      if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::microseconds(300));
      for (index_t j = 0; j < 4; ++j) REQUIRE(panel.view()(0, j) == round);
      panel.release();
      CHECK((comm.rank() == 0 || panel.view().data == nullptr));
      comm.drain();
      block.fill(-1);
    }
  });
}

TEST_CASE("A panel that is destroyed is released, whether or not it was waited for") {
  launch_threads(3, [](ThreadComm& comm) {
    double x = 4;
    for (int i = 0; i < 200; ++i) {
      auto panel = comm.broadcast_panel(row_view(&x, 1), row_view(&x, 1), i % 3);
      if (i % 2 == 0) panel.wait();
      ThreadPanel<double> other;
      other = std::move(panel);
    }
    comm.drain();
    comm.barrier();
  });
}

TEST_CASE("A rank may run ahead by a ring, and no further with requests of its own") {
  launch_threads(2, [](ThreadComm& comm) {
    std::vector<double> x(65, comm.rank());
    std::vector<ThreadRequest> requests;
    for (std::size_t i = 0; i < 64; ++i) requests.push_back(comm.all_reduce(row_view(&x[i], 1), row_view(&x[i], 1)));
    CHECK_THROWS_AS(static_cast<void>(comm.all_reduce(row_view(&x[64], 1), row_view(&x[64], 1))), ArgumentError);
    for (ThreadRequest& r : requests) r.wait();
    comm.all_reduce(row_view(&x[64], 1), row_view(&x[64], 1)).wait();
    for (const double v : x) REQUIRE(v == 1);
    // An owner that lends more than a ring holds waits for the slowest reader, and drain for all of them.
    std::vector<double> lent(300, -1);
    for (std::size_t i = 0; i < lent.size(); ++i) {
      lent[i] = static_cast<double>(i);
      auto panel = comm.broadcast_panel(row_view(&lent[i], 1), row_view(&lent[i], 1), 0);
      if (comm.rank() == 1 && i % 100 == 50) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      panel.wait();
      REQUIRE(panel.view()(0, 0) == static_cast<double>(i));
    }
    comm.drain();
  });
}

TEST_CASE("Messages: many at once, matched in order for each sender and tag") {
  launch_threads(4, [](ThreadComm& comm) {
    const int size = comm.size();
    std::vector<std::int64_t> sent;
    std::vector<std::int64_t> got(static_cast<std::size_t>(size) * 40, -1);
    for (int i = 0; i < 40; ++i) sent.push_back(comm.rank() * 1000 + i);
    std::vector<ThreadRequest> requests;
    for (int i = 0; i < 40; ++i) {
      for (int r = 0; r < size; ++r) {
        requests.push_back(comm.send(row_view(&sent[static_cast<std::size_t>(i)], 1), r, i % 3));
        requests.push_back(comm.recv(row_view(&got[static_cast<std::size_t>(r * 40 + i)], 1), r, i % 3));
      }
    }
    while (!requests.empty()) {
      requests.back().wait();
      requests.pop_back();
    }
    for (int i = 0; i < size * 40; ++i) REQUIRE(got[static_cast<std::size_t>(i)] == i / 40 * 1000 + i % 40);
  });
}

TEST_CASE("G13: ranks outside a subset neither hang nor hold up the others") {
  for (const int ranks : {5, 7}) {
    const int used = ranks == 5 ? 4 : 1;
    launch_threads(ranks, [&](ThreadComm& comm) {
      for (int round = 0; round < 20; ++round) {
        std::optional<ThreadComm> part = comm.subset(used);
        REQUIRE(part.has_value() == (comm.rank() < used));
        if (!part) continue;
        double x = comm.rank() + 1;
        part->all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
        REQUIRE(x == used * (used + 1) / 2.0);
        part->barrier();
      }
      comm.barrier();
    });
  }
}

/// Bytes of memory in use by this process (Linux), else 0.
std::size_t resident_pages() {
  std::size_t total = 0;
  std::size_t resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident;
}

TEST_CASE("K01: communicators that are split and dropped leave no memory behind") {
  const int rounds = sanitized ? 1000 : 20000;  // two splits each
  std::size_t after_first = 0;
  std::size_t at_end = 0;
  launch_threads(4, [&](ThreadComm& comm) {
    for (int i = 0; i < rounds; ++i) {
      const std::optional<ThreadComm> row = comm.split(comm.rank() / 2, comm.rank());
      const std::optional<ThreadComm> column = comm.split(comm.rank() % 2, comm.rank());
      REQUIRE(row->size() + column->size() == 4);
      if (comm.rank() == 0 && i == 100) after_first = resident_pages();
    }
    comm.barrier();
    if (comm.rank() == 0) at_end = resident_pages();
  });
  if (!sanitized) CHECK((at_end <= after_first || at_end - after_first < 256));  // 1 MiB
}

}  // namespace
}  // namespace partita
