// SPDX-License-Identifier: Apache-2.0
// Ranks with devices that throw, anywhere: their peers are freed with the reason, the next launch works, and on the
// stand-ins nothing is left. Ranks that do not come, and ranks that CheckedComm finds to differ.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "partita/comm/checked.hpp"
#include "partita/redistribute/block_cyclic.hpp"
#include "partita/tensor/from_blocks.hpp"
#include "partita/tensor/pending.hpp"
#include "support/checked_sums.hpp"
#include "support/device_case.hpp"
#include "support/device_memory.hpp"
#include "support/failing_comm.hpp"
#include "support/fills.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int ranks = 4;
constexpr int guilty = 2;
/// Longer than anything that is well takes: libraries load their kernels when they first need them, and a rank that the
/// machine keeps waiting is to come to the product all the same.
constexpr std::chrono::milliseconds deadline(on_device ? 5000 : sanitized ? 3000 : 1000);

LaunchOptions within(std::chrono::milliseconds limit) {
  LaunchOptions options;
  options.deadline = limit;
  return options;
}

/// body(Comm&) on the ranks.
template <class Comm, class Body>
void launch_ranks(LaunchOptions options, Body body) {
  if constexpr (std::is_same_v<Comm, CudaThreadComm>) {
    launch_on_device(ranks, options, body);
  } else {
    launch_devices(ranks, options, body);
  }
}
/// body(Context<CudaBackend, Comm>&) on the ranks.
template <class Comm, class Body>
void launch_contexts(LaunchOptions options, Body body) {
  launch_ranks<Comm>(options, [&](Comm& comm) {
    CudaBackend backend(comm.timeline(), small_backend());
    Context<CudaBackend, Comm> context(std::move(comm), std::move(backend));
    body(context);
  });
}

/// Products whose panels come in and go out, sums, moves between partitions, arrays of the host, memory of the user's
/// own. No CHECK may hold a call here: it would keep what the call throws.
template <class Ctx>
void several_things(Ctx& context) {
  using Pending = Partition<TpGrid<>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
  const MatmulOptions narrow{.panel_width = 2, .sum_width = 2};
  const auto plane = make_grid<Summa2D<2>>(context);
  const auto line = make_grid<RowShard<>>(context, ranks);
  const auto a = from_function<double, Summa2D<2>>(plane, {9, 8}, fill_a);
  const auto b = from_function<double, Summa2D<2>>(plane, {8, 7}, fill_b);
  const auto c = matmul(a, b, narrow);
  const auto d = gather(matmul(transposed(a), c, narrow));
  const auto whole = gather(c);
  auto rows = redistribute<RowShard<>>(c, line);
  const auto cols = redistribute<ColumnShard<>>(rows);
  const BlockCyclic array{{9, 7}, 2, 1, 2, 2, 0, 1, false};
  const Shape mine = array.local_shape(context.rank());
  std::vector<double> local(static_cast<std::size_t>(mine.size()) + 1);
  to_block_cyclic(cols, array, local.data(), mine.rows > 0 ? mine.rows : 1);
  const auto again = from_block_cyclic<ColumnShard<>>(line, array, local.data(), mine.rows > 0 ? mine.rows : 1);
  UserMemory<double, Ctx> memory(context, 7 * 7, -1);
  auto own = wrap<Replicated<>>(line, {7, 7}, memory.data(), 7);
  matmul_into(own, transposed(rows), rows, 1, 0, narrow);
  auto sum = begin_sum<Replicated<>>(matmul<Pending>(transposed(rows), rows));
  const auto joined = gather(from_blocks<RowShard<>>(line, rows.local()));
  const auto moved = gather(again);
  const auto summed = gather(sum.wait());
  const auto wrapped = gather(own);
  context.comm().barrier();
  CHECK(same_bits(whole, serial_product<double>(9, 7, 8, fill_a, fill_b)));
  CHECK(same_bits(d, serial_product<double>(8, 7, 9, [](index_t i, index_t j) { return fill_a(j, i); }, whole)));
  CHECK(same_bits(moved, whole));
  CHECK(same_bits(joined, whole));
  const auto square = serial_product<double>(7, 7, 9, [&](index_t i, index_t j) { return whole(j, i); }, whole);
  CHECK(same_bits(summed, square));
  CHECK(same_bits(wrapped, square));
}

/// The launch must throw `text`, all peers of the guilty rank must leave with PeerFailed and its name, and soon.
template <class Comm, class Body>
void check_freed(const std::string& text, Body body) {
  std::atomic<int> left{0};
  std::string error = "none";
  const auto start = Clock::now();
  try {
    launch_contexts<Comm>(within(std::chrono::seconds(20)), [&](auto& context) {
      const auto met = [&] {  // a peer that still made its communicator would fail there
        context.comm().barrier();
        body(context);
      };
      if (context.rank() == guilty) return met();
      try {
        met();
        context.comm().barrier();
      } catch (const PeerFailed& failure) {
        if (failure.origin == guilty) ++left;
        throw;
      }
    });
  } catch (const std::exception& e) {
    error = e.what();
  } catch (int) {
    error = "a number";
  }
  CHECK(error == text);
  CHECK(left == ranks - 1);
  if (!on_device) CHECK(Clock::now() - start < std::chrono::seconds(sanitized ? 20 : 10));
}

TEST_CASE_TEMPLATE("Devices: a rank that throws before any operation frees its peers, and the next launch works", Comm,
                   CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(ranks)) return;
  int operations = 0;
  {
    const DeviceMachine machine(devices_of<Comm>(ranks), false);
    launch_contexts<Comm>({}, [&](auto& context) {
      RecordingSink sink;
      const SinkScope scope(sink);
      several_things(context);
      if (context.rank() == guilty) operations = static_cast<int>(sink.events.size());
    });
  }
  CAPTURE(operations);
  CHECK(operations > 50);
  for (int k = 0; k < operations; k += on_device || sanitized ? 11 : 1) {
    CAPTURE(k);
    const auto throws = [k](auto& context) {
      if (context.rank() != guilty) return several_things(context);
      ThrowingSink sink(k);
      const SinkScope scope(sink);
      several_things(context);
    };
    for (const bool late : {false, true}) {
      const DeviceMachine machine(devices_of<Comm>(ranks), late);
      check_freed<Comm>("boom", throws);
    }
    const DeviceMachine machine(devices_of<Comm>(ranks), false);
    if (k % 16 == 0) launch_contexts<Comm>({}, [](auto& context) { several_things(context); });
  }
}

/// What a rank has in its hands when it throws, on ranks that all take it up.
template <class Ctx>
std::vector<std::function<void(Ctx&, const std::function<void()>&)>> hands_full() {
  using Throw = std::function<void()>;
  using Pending = Partition<TpGrid<>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
  using Comm = typename Ctx::comm_type;
  const auto block = [](Ctx& context, const Memory& memory) {
    const View<float> x = row_view(reinterpret_cast<float*>(memory.get()), 64);
    context.backend().clear(x);
    return x;
  };
  return {
      [block](Ctx& context, const Throw& boom) {  // a panel that is lent and being read
        const Memory memory = context.template allocate<float>(64);
        const Memory other = context.template allocate<float>(64);
        const View<float> x = block(context, memory);
        const View<float> y = block(context, other);
        auto panel = context.comm().template broadcast_panel<float>(x, y, guilty);
        panel.wait();
        boom();
        panel.release();
        context.comm().drain();
      },
      [block](Ctx& context, const Throw& boom) {  // a panel of a peer
        const Memory memory = context.template allocate<float>(64);
        const Memory other = context.template allocate<float>(64);
        auto panel = context.comm().template broadcast_panel<float>(block(context, memory), block(context, other), 0);
        panel.wait();
        boom();
        panel.release();
        context.comm().drain();
      },
      [block](Ctx& context, const Throw& boom) {  // a sum that nobody has waited for
        const Memory memory = context.template allocate<float>(64);
        const View<float> x = block(context, memory);
        auto sum = context.comm().all_reduce(x, x);
        boom();
        sum.wait();
      },
      [block](Ctx& context, const Throw& boom) {  // messages that nobody has waited for
        const Memory memory = context.template allocate<float>(64);
        const Memory other = context.template allocate<float>(64);
        auto sent = context.comm().send(block(context, memory), (context.rank() + 1) % ranks, 0);
        auto taken = context.comm().recv(block(context, other), (context.rank() + ranks - 1) % ranks, 0);
        boom();
        taken.wait();
        sent.wait();
      },
      [](Ctx& context, const Throw& boom) {  // a sum of tensors under way, and its operands
        const auto grid = make_grid<TpGrid<>>(context, ranks);
        const auto a = from_function<float, ColumnShard<>>(grid, {5, 8}, fill_a);
        const auto b = from_function<float, RowShard<>>(grid, {8, 7}, fill_b);
        auto sum = begin_sum<Replicated<>>(matmul<Pending>(a, b));
        boom();
        (void)gather(sum.wait());
      },
      [](Ctx& context, const Throw& boom) {  // a product into memory of the user's own, which goes
        const auto grid = make_grid<TpGrid<>>(context, ranks);
        UserMemory<float, Ctx> memory(context, 5 * 7, -1);
        const auto a = from_function<float, ColumnShard<>>(grid, {5, 8}, fill_a);
        const auto b = from_function<float, RowShard<>>(grid, {8, 7}, fill_b);
        auto c = wrap<Replicated<>>(grid, {5, 7}, memory.data(), 7);
        matmul_into(c, a, b);
        boom();
      },
      [](Ctx& context, const Throw& boom) {  // while the host writes a tensor
        const auto grid = make_grid<TpGrid<>>(context, ranks);
        const auto a = from_function<float, RowShard<>>(grid, {8, 8}, [&](index_t i, index_t j) {
          if (i == 2 * guilty + 1) boom();
          return fill_a(i, j);
        });
        (void)gather(a);
      },
      [block](Ctx& context, const Throw& boom) {  // communicators that were split, and work on them
        std::optional<Comm> pair = context.comm().split(context.rank() % 2, 0);
        const Memory memory = context.template allocate<float>(64);
        const View<float> x = block(context, memory);
        pair->all_reduce(x, x).wait();
        std::optional<Comm> alone = pair->split(pair->rank(), 0);
        boom();
        pair->barrier();
      },
      [](Ctx& context, const Throw& boom) {  // while peers wait for the device
        const auto grid = make_grid<TpGrid<>>(context, ranks);
        const auto a = from_function<float, RowShard<>>(grid, {8, 8}, fill_a);
        const auto c = matmul(transposed(a), a);
        boom();
        context.sync();
        (void)gather(c);
      },
  };
}

TEST_CASE_TEMPLATE("Devices: a rank that throws with its hands full frees its peers, and nothing is left", Comm,
                   CudaThreadComm, NcclComm) {
  using Ctx = Context<CudaBackend, Comm>;
  if (!has_devices<Comm>(ranks)) return;
  const auto programs = hands_full<Ctx>();
  for (std::size_t i = 0; i < programs.size(); ++i) {
    CAPTURE(i);
    for (const bool late : {false, true}) {
      const DeviceMachine machine(devices_of<Comm>(ranks), late);
      launch_contexts<Comm>({}, [&](Ctx& context) { programs[i](context, [] {}); });
      check_freed<Comm>("boom", [&](Ctx& context) {
        programs[i](context, [&] {
          if (context.rank() == guilty) throw std::runtime_error("boom");
        });
      });
    }
  }
  const DeviceMachine machine(devices_of<Comm>(ranks), false);
  check_freed<Comm>("a number", [&](Ctx& context) {
    several_things(context);
    if (context.rank() == guilty) throw 42;
  });
}

TEST_CASE_TEMPLATE("Devices: a rank that throws while a peer that throws too leaves its sum alone", Comm,
                   CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(ranks)) return;
  const DeviceMachine machine(devices_of<Comm>(ranks), false);
  std::atomic<bool> begun{false};
  const auto start = Clock::now();
  const auto body = [&](auto& context) {
    const Memory memory = context.template allocate<float>(64);
    const View<float> x = row_view(reinterpret_cast<float*>(memory.get()), 64);
    context.backend().clear(x);
    context.comm().barrier();
    if (context.rank() == 1) {
      while (!begun && Clock::now() - start < std::chrono::milliseconds(300)) std::this_thread::yield();
      throw std::runtime_error("boom");
    }
    context.comm().all_reduce(x, x).wait();
    if (context.rank() == guilty) {
      begun = true;
      throw std::runtime_error("boom");
    }
    context.comm().barrier();
  };
  CHECK_THROWS_WITH(launch_contexts<Comm>(within(std::chrono::seconds(20)), body), "boom");
  if (!on_device) CHECK(Clock::now() - start < std::chrono::seconds(sanitized ? 20 : 10));
}

TEST_CASE_TEMPLATE("Devices: a rank that finds no scratch memory inside a product frees its peers", Comm,
                   CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(ranks)) return;
  const DeviceMachine machine(devices_of<Comm>(ranks), false);
  std::atomic<int> freed{0};
  const auto body = [&](Comm& comm) {
    CudaBackend backend(comm.timeline(), small_backend());
    Context<CudaBackend, FailingComm<Comm>> context(FailingComm<Comm>(std::move(comm)), std::move(backend));
    const auto grid = make_grid<Summa2D<2>>(context);
    const auto a = from_function<double, Summa2D<2>>(grid, {6, 6}, fill_a);
    auto c = zeros<double, Summa2D<2>>(grid, {6, 6});
    if (context.rank() == guilty) context.comm().allocations().left = 0;
    try {
      matmul_into(c, a, transposed(a));
      context.comm().barrier();
    } catch (const PeerFailed& failure) {
      if (failure.origin == guilty) ++freed;
      throw;
    }
  };
  CHECK_THROWS_AS(launch_ranks<Comm>({}, body), CapacityError);
  CHECK(freed == ranks - 1);
}

TEST_CASE_TEMPLATE("Devices: a rank that does not come to a product fails its peers, at the latest at the deadline",
                   Comm, CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(ranks)) return;
  for (const bool returns : {true, false}) {
    CAPTURE(returns);
    const DeviceMachine machine(devices_of<Comm>(ranks), false);
    std::atomic<int> left{0};
    const auto start = Clock::now();
    const auto body = [&](auto& context) {
      const auto product = [&] {
        const auto grid = make_grid<Summa2D<2>>(context);
        const auto a = from_function<float, Summa2D<2>>(grid, {8, 8}, fill_a);
        if (context.rank() != guilty) (void)gather(matmul(a, a));
      };
      try {
        product();
      } catch (const Error& error) {
        const bool typed =
            dynamic_cast<const PeerFailed*>(&error) != nullptr || dynamic_cast<const TimeoutError*>(&error) != nullptr;
        if (typed) ++left;
        throw;
      }
      if (context.rank() != guilty) FAIL_CHECK("a product without a rank ended");
      while (!returns && left < ranks - 1 && Clock::now() - start < 4 * deadline) std::this_thread::yield();
    };
    CHECK_THROWS_AS(launch_contexts<Comm>(within(deadline), body), Error);
    CHECK(left == ranks - 1);
    CHECK(Clock::now() - start < std::chrono::seconds(10) + 4 * deadline);
  }
  const DeviceMachine machine(devices_of<Comm>(ranks), false);
  launch_contexts<Comm>({}, [](auto& context) { several_things(context); });
}

/// body(Context<CudaBackend, CheckedComm<Comm>>&) on so many ranks.
template <class Comm, class Body>
void on_checked_ranks(int size, const CheckOptions& options, Body body) {
  test::launch_ranks<Comm>(size, [&](Comm& base) {
    CheckedComm<Comm> comm(std::move(base), options);
    CudaBackend backend(comm.timeline(), small_backend());
    Context<CudaBackend, CheckedComm<Comm>> context(std::move(comm), std::move(backend));
    body(context);
  });
}

TEST_CASE_TEMPLATE("Devices: CheckedComm finds sums that are repeated", Comm, CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(3)) return;
  for (const index_t n : {index_t{1}, index_t{7}, index_t{5000}}) {
    const DeviceMachine machine(devices_of<Comm>(3), n == 7);
    on_checked_ranks<Comm>(3, {}, [n](auto& context) { check_repeated_sums(context, n); });
    on_checked_ranks<Comm>(2, {std::chrono::seconds(20), false},
                           [n](auto& context) { check_sums_unchecked(context, n); });
  }
}

TEST_CASE_TEMPLATE("Devices: CheckedComm finds products that differ, before anything moves; others pass", Comm,
                   CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(ranks)) return;
  const DeviceMachine machine(devices_of<Comm>(ranks), true);
  on_checked_ranks<Comm>(ranks, {}, [](auto& context) {
    for (int i = 0; i < 2; ++i) several_things(context);
    const auto grid = make_grid<Summa2D<2>>(context);
    const auto a = from_function<double, Summa2D<2>>(grid, {8, 8}, fill_a);
    auto c = from_function<double, Summa2D<2>>(grid, {8, 8}, fill_c);
    const double alpha = context.rank() == guilty ? 3 : 1;
    CHECK_THROWS_AS(matmul_into(c, a, a, alpha, 0), CollectiveMismatch);
    const bool other = context.rank() == guilty;
    CHECK_THROWS_AS(matmul_into(c, a, a, 1, 0, {.panel_width = other ? 1 : 2}), CollectiveMismatch);
    CHECK_THROWS_AS(context.comm().check_value("alpha", alpha), CollectiveMismatch);
    CHECK(gather(c).elements == gather(from_function<double, Summa2D<2>>(grid, {8, 8}, fill_c)).elements);
    matmul_into(c, a, a);
    CHECK(same_bits(gather(c), serial_product<double>(8, 8, 8, fill_a, fill_a)));
    context.comm().close();
  });
}

TEST_CASE_TEMPLATE("Devices: CheckedComm tells a call that is missing at the deadline, with the latest calls", Comm,
                   CudaThreadComm, NcclComm) {
  if (!has_devices<Comm>(ranks)) return;
  const DeviceMachine machine(devices_of<Comm>(ranks), false);
  std::atomic<int> told{0};
  const auto body = [&](Comm& base) {
    CheckedComm<Comm> comm(std::move(base));
    comm.barrier();
    if (comm.rank() == guilty) {
      const auto start = Clock::now();
      while (told == 0 && Clock::now() - start < 4 * deadline) std::this_thread::yield();
      return;
    }
    try {
      comm.barrier();
    } catch (const MissingCall& error) {
      if (error.events.find("barrier") != std::string::npos) ++told;
      throw;
    }
  };
  CHECK_THROWS_AS(launch_ranks<Comm>(within(deadline), body), Error);
  CHECK(told >= 1);  // a peer may hear of the first one's deadline before its own
}

}  // namespace
}  // namespace partita::test
