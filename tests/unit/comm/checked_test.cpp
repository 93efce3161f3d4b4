// SPDX-License-Identifier: Apache-2.0
// CheckedComm: the laws, users' cases of ranks that disagree, deadlines, threads, repeated sums, and no false alarm.
#include "partita/comm/checked.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <complex>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/self.hpp"
#include "partita/partita.hpp"
#include "support/checked_sums.hpp"
#include "support/layouts.hpp"
#include "support/product_case.hpp"

namespace partita {

using CheckedThreads = CheckedComm<ThreadComm>;
using CheckedContext = Context<EigenBackend, CountingComm<CheckedThreads>>;
using CheckedCopies = Context<EigenBackend, CountingComm<CheckedComm<test::CopyingComm<ThreadComm>>>>;

Traffic touched(CheckedContext& context) { return context.comm().base().base().traffic(); }
Traffic touched(CheckedCopies& context) { return context.comm().base().traffic(); }

static_assert(Communicator<CheckedThreads>);
static_assert(Communicator<CheckedComm<SelfComm>>);
static_assert(Communicator<CheckedComm<detail::NoComm>>);
static_assert(!CarriesInspections<SelfComm>);

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds patient = std::chrono::seconds(20);

TEST_CASE("CheckedComm obeys the communicator laws") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    CAPTURE(ranks);
    launch_threads(ranks, [](ThreadComm base) {
      CheckedComm comm(std::move(base), {patient, true});
      laws::check_communicator(comm);
      comm.close();
    });
  }
  CheckedComm alone{SelfComm()};
  laws::check_communicator(alone);
  alone.check_value("alpha", 1.0);
  alone.close();
}

TEST_CASE("CheckedComm obeys them over a communicator that does not carry inspections") {
  for (const int ranks : {2, 3, 5}) {
    launch_threads(ranks, [](ThreadComm base) {
      CheckedComm comm(CountingComm<ThreadComm>(std::move(base)));
      laws::check_communicator(comm);
      comm.close();
    });
  }
}

/// What each rank of `ranks` met in `call`, and what was there afterwards.
struct Met {
  std::string kind, text;
  std::vector<std::string> calls;
  std::uint64_t step = 0;
  std::chrono::milliseconds after{0};
};

template <class Body>
std::vector<Met> meet(int ranks, Body body) {
  std::vector<Met> all(static_cast<std::size_t>(ranks));
  launch_threads(ranks, [&](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    Met& met = all[static_cast<std::size_t>(comm.rank())];
    double x = 1;
    comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
    const auto begin = Clock::now();
    try {
      body(comm);
    } catch (const ShapeMismatch& error) {
      met = {"ShapeMismatch", error.what(), error.calls, error.step, {}};
    } catch (const TypeMismatch& error) {
      met = {"TypeMismatch", error.what(), error.calls, error.step, {}};
    } catch (const CollectiveMismatch& error) {
      met = {"CollectiveMismatch", error.what(), error.calls, error.step, {}};
    }
    met.after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    double y = comm.rank();
    comm.all_reduce(row_view(&y, 1), row_view(&y, 1)).wait();
    CHECK(y == comm.size() * (comm.size() - 1) / 2.0);
    comm.close();
  });
  return all;
}

void check_met(const std::vector<Met>& all, const char* kind, const std::vector<std::string>& calls) {
  for (const Met& met : all) {
    CHECK(met.kind == kind);
    CHECK(met.text == all.front().text);
    CHECK(met.step == 1);
    CHECK(met.after < patient);
    CHECK(met.calls == calls);
  }
}

TEST_CASE("F02: ranks that disagree about a shape or a type get the same typed error, and nothing is written") {
  const auto rows = [](int rank) { return rank == 0 ? index_t{100} : index_t{77}; };
  const auto reduced = meet(4, [&](CheckedThreads& comm) {
    std::vector<double> x(100, 3);
    try {
      const View<double> v(x.data(), {rows(comm.rank()), 1});
      comm.all_reduce(v, v).wait();
    } catch (...) {
      CHECK(std::count(x.begin(), x.end(), 3.0) == 100);
      throw;
    }
  });
  const std::string other = "all_reduce of 77x1 double, sum";
  check_met(reduced, "ShapeMismatch", {"all_reduce of 100x1 double, sum", other, other, other});

  const auto gathered = meet(4, [&](CheckedThreads& comm) {
    const index_t n = rows(comm.rank());
    std::vector<double> x(static_cast<std::size_t>(n), 3);
    std::vector<double> whole(static_cast<std::size_t>(4 * n), 5);
    std::vector<Block> blocks;
    for (index_t r = 0; r < 4; ++r) blocks.push_back({{r * n, (r + 1) * n}, {0, 1}});
    try {
      comm.all_gather(View<const double>(x.data(), {n, 1}), View<double>(whole.data(), {4 * n, 1}),
                      std::span<const Block>(blocks))
          .wait();
    } catch (...) {
      CHECK(std::count(whole.begin(), whole.end(), 5.0) == 4 * n);
      throw;
    }
  });
  for (const Met& met : gathered) {
    CHECK(met.kind == "ShapeMismatch");
    CHECK(met.text == gathered.front().text);
    CHECK(met.text.find("rank 0: all_gather of 400x1 double") != std::string::npos);
    CHECK(met.text.find("rank 3: all_gather of 308x1 double") != std::string::npos);
  }

  const auto typed = meet(4, [](CheckedThreads& comm) {
    std::array<double, 8> x{};
    std::array<float, 8> y{};
    if (comm.rank() == 0) return comm.all_reduce(row_view(x.data(), 8), row_view(x.data(), 8)).wait();
    comm.all_reduce(row_view(y.data(), 8), row_view(y.data(), 8)).wait();
  });
  const std::string single = "all_reduce of 1x8 float, sum";
  check_met(typed, "TypeMismatch", {"all_reduce of 1x8 double, sum", single, single, single});
}

TEST_CASE("F02: ranks that disagree about the operands of a product") {
  // Shapes are agreed when a tensor is made.
  std::array<std::string, 4> texts;
  launch_threads(4, [&](ThreadComm base) {
    CheckedContext context(CountingComm(CheckedComm(std::move(base), {patient, true})));
    const auto grid = make_grid<TpGrid<>>(context, 4);
    try {
      const auto a = zeros<double, ColumnShard<>>(grid, {context.rank() == 0 ? 100 : 77, 8});
    } catch (const ShapeError& error) {
      texts[static_cast<std::size_t>(context.rank())] = error.what();
    }
    const auto b = zeros<double, ColumnShard<>>(grid, {8, 8});
    CHECK(matmul(b, zeros<double, RowShard<>>(grid, {8, 8})).local()(0, 0) == 0);
    context.comm().base().close();
  });
  for (const std::string& text : texts) CHECK(text.find("disagree about a tensor's shape") != std::string::npos);
  // A type is not, but compared before the product moves anything; more of that in checked_product_test.cpp.
  launch_threads(4, [&](ThreadComm base) {
    CheckedContext context(CountingComm(CheckedComm(std::move(base), {patient, true})));
    const auto grid = make_grid<TpGrid<>>(context, 4);
    const auto multiply = [&](auto zero) {
      using T = decltype(zero);
      static_cast<void>(matmul(zeros<T, ColumnShard<>>(grid, {8, 8}), zeros<T, RowShard<>>(grid, {8, 8})));
    };
    const auto begin = Clock::now();
    try {
      context.rank() == 0 ? multiply(0.0) : multiply(0.0F);
      FAIL("no TypeMismatch");
    } catch (const TypeMismatch& error) {
      CHECK(error.calls.size() == 4);
    }
    CHECK(Clock::now() - begin < patient);
    multiply(0.0);
    context.comm().base().close();
  });
}

TEST_CASE("F03: another collective, root or operator at the same step, and one call too many at the end") {
  const auto untouched = [](CheckedThreads& comm, auto call) {
    std::array<double, 4> x{1, 2, 3, 4};
    try {
      call(comm, row_view(x.data(), 4));
    } catch (...) {
      CHECK(x == std::array<double, 4>{1, 2, 3, 4});
      throw;
    }
  };
  const auto a = meet(3, [&](CheckedThreads& c) {
    untouched(c, [](CheckedThreads& comm, View<double> x) {
      if (comm.rank() == 2) return comm.broadcast(x, 0).wait();
      comm.all_reduce(x, x).wait();
    });
  });
  const std::string sum = "all_reduce of 1x4 double, sum";
  check_met(a, "CollectiveMismatch", {sum, sum, "broadcast of 1x4 double, root 0"});
  CHECK(a[0].text.find("call 1 of the communicator: the ranks differ in the operation") != std::string::npos);

  const auto b = meet(3, [&](CheckedThreads& c) {
    untouched(c, [](CheckedThreads& comm, View<double> x) { comm.broadcast(x, comm.rank() == 2 ? 1 : 0).wait(); });
  });
  const std::string root_0 = "broadcast of 1x4 double, root 0";
  check_met(b, "CollectiveMismatch", {root_0, root_0, "broadcast of 1x4 double, root 1"});

  const auto c = meet(3, [&](CheckedThreads& checked) {
    untouched(checked, [](CheckedThreads& comm, View<double> x) {
      comm.all_reduce(x, x, comm.rank() == 2 ? ReduceOp::max : ReduceOp::sum).wait();
    });
  });
  check_met(c, "CollectiveMismatch", {sum, sum, "all_reduce of 1x4 double, maximum"});

  const auto d = meet(3, [&](CheckedThreads& comm) { comm.rank() == 2 ? comm.barrier() : comm.close(); });
  check_met(d, "CollectiveMismatch", {"close", "close", "barrier"});
}

TEST_CASE("CheckedComm: the generic comparison names all ranks, too") {
  std::array<std::string, 3> texts;
  launch_threads(3, [&](ThreadComm base) {
    CheckedComm comm(CountingComm<ThreadComm>(std::move(base)));
    const Traffic before = comm.traffic();
    CHECK_THROWS_AS(comm.check_value("alpha", comm.rank() == 1 ? 0.5 : 0.25), CollectiveMismatch);
    try {
      comm.check_value("alpha", comm.rank() == 1 ? 0.5 : 0.25);
    } catch (const CollectiveMismatch& error) {
      texts[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    CHECK(comm.traffic() == before);
    comm.close();
  });
  for (const std::string& text : texts) {
    CHECK(text == texts[0]);
    CHECK(text.find("rank 1: check_value of alpha = 0.5\n") != std::string::npos);
  }
}

TEST_CASE("CheckedComm: a mismatch among pending operations leaves the others as they are") {
  launch_threads(3, [](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    for (int round = 0; round < 100; ++round) {  // more than the operations of a ring
      double x = comm.rank(), y = comm.rank(), z = comm.rank();
      double unused = 0;
      auto first = comm.all_reduce(row_view(&x, 1), row_view(&x, 1));
      auto panel = comm.broadcast_panel(View<const double>(row_view(&z, 1)), row_view(&unused, 1), round % 3);
      auto second = comm.reduce(row_view(&y, 1), row_view(&y, 1), comm.rank() == round % 3 ? 0 : 1);
      auto third = comm.broadcast(row_view(&z, 1), 2);
      if (comm.rank() == 1) third.wait();
      CHECK_THROWS_AS(second.wait(), CollectiveMismatch);
      third.wait();
      panel.wait();
      first.wait();
      CHECK((x == 3 && y == comm.rank() && z == 2));
      if (comm.rank() == round % 3 || round % 2 == 0) panel.release();
      auto unread = comm.broadcast_panel(View<const double>(row_view(&z, 1)), row_view(&unused, 1), 1);
      unread.release();
      panel.release();
      comm.drain();
    }
    comm.close();
  });
}

TEST_CASE("CheckedComm: a missing call is told within the deadline, with the latest calls of each rank") {
  std::atomic<int> begun{0};
  const auto all_have_begun = [&begun] {
    for (++begun; begun.load() < 3;) std::this_thread::yield();
  };
  launch_threads(3, [&](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    std::array<double, 300> x{};
    const auto call = [&](index_t n) { comm.broadcast(row_view(x.data(), n), 0).wait(); };
    for (index_t n = 1; n <= 300; ++n) call(n);
    auto part = comm.split(comm.rank() == 2 ? 1 : 0, 0);
    part->barrier();
    comm.barrier();
    if (comm.rank() == 2) {
      int message = 0;
      auto received = comm.recv(row_view(&message, 1), 0, 0);
      all_have_begun();
      received.wait();
      comm.recv(row_view(&message, 1), 1, 0).wait();
      CHECK_THROWS_AS(call(1), MissingCall);
    } else {
      auto missed = comm.broadcast(row_view(x.data(), 1), 0);
      all_have_begun();
      comm.set_deadline(std::chrono::milliseconds(50));
      try {
        missed.wait();
        FAIL("no MissingCall");
      } catch (const MissingCall& error) {
        CHECK(error.step == 302);
        const std::string text = error.what();
        CHECK(text.find("rank 2: has not called; its latest: recv of 1x1 int32 from") != std::string::npos);
        CHECK(error.events.find("barrier (call 0 of the communicator / split 1 colour 0)") != std::string::npos);
        // Rank 0's latest 256: without broadcasts of the first 48 sizes.
        CHECK(error.events.find(" 1x48 double") == std::string::npos);
        CHECK(error.events.find(" 1x49 double") != std::string::npos);
        CHECK(std::count(error.events.begin(), error.events.end(), '\n') == 3 + 3 * 256);
      }
      comm.set_deadline(patient);
      int message = 1;
      comm.send(row_view(&message, 1), 2, 0).wait();
    }
    comm.set_deadline(patient);
    call(300);
    comm.close();
  });
}

TEST_CASE("CheckedComm: a missing call is the deadline's of the communicator underneath, where it carries none") {
  std::atomic<bool> given_up{false};
  const auto body = [&given_up](ThreadComm base) {
    CheckedComm comm(CountingComm<ThreadComm>(std::move(base)));
    const auto end = Clock::now() + patient;
    while (comm.rank() == 1 && !given_up.load() && Clock::now() < end) std::this_thread::yield();
    try {
      comm.barrier();
    } catch (const MissingCall&) {
      given_up.store(true);
      throw;
    }
  };
  LaunchOptions options;
  options.deadline = std::chrono::milliseconds(50);
  CHECK_THROWS_AS(launch_threads(2, options, body), MissingCall);
}

TEST_CASE("CheckedComm: a call from another thread is refused there, and told to all ranks") {
  launch_threads(3, [](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    comm.barrier();
    if (comm.rank() == 1) {
      std::thread([&] { CHECK_THROWS_AS(comm.barrier(), ForeignThread); }).join();
    }
    double x = comm.rank();
    const auto sum = [&] { comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait(); };
    try {
      sum();
      FAIL("no ForeignThread");
    } catch (const ForeignThread& error) {
      CHECK(error.calls[1] == "all_reduce of 1x1 double, sum, after barrier from another thread");
      CHECK(error.calls[0] == "all_reduce of 1x1 double, sum");
    }
    CHECK(x == comm.rank());
    sum();
    CHECK(x == 3);
    comm.close();
  });
  CheckedComm handed_over{SelfComm()};
  handed_over.barrier();
  std::thread([&] {
    handed_over.adopt();
    handed_over.barrier();
  }).join();
  CHECK_THROWS_AS(handed_over.barrier(), ForeignThread);
}

TEST_CASE("CheckedComm: a call of two threads at once") {
  launch_threads(2, [](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    comm.barrier();
    std::atomic<bool> stop{false};
    std::atomic<int> refused{0};
    std::thread stray([&] {
      while (!stop.load()) {
        try {
          comm.barrier();
        } catch (const ForeignThread&) {
          ++refused;
        }
        std::this_thread::yield();
      }
    });
    int told = 0;
    for (bool more = true; more;) {
      try {
        more = comm.agree(told < 5 || refused.load() == 0 ? 1 : 0) == 1;
      } catch (const ForeignThread&) {
        ++told;
      } catch (const Error& error) {
        MESSAGE(error.what());
        more = false;
      }
    }
    stop.store(true);
    stray.join();
    CHECK(told >= 5);
    CHECK(refused.load() > 0);
  });
}

TEST_CASE("CheckedComm: the same buffer summed twice") {
  using Ctx = Context<EigenBackend, CheckedComm<ThreadComm>>;
  for (const index_t n : {index_t{1}, index_t{7}, index_t{5000}}) {
    launch_threads(3, [n](ThreadComm base) {
      Ctx context{CheckedComm(std::move(base), {patient, true})};
      test::check_repeated_sums(context, n);
    });
    launch_threads(2, [n](ThreadComm base) {
      Ctx context{CheckedComm(std::move(base), {patient, false})};
      test::check_sums_unchecked(context, n);
    });
  }
}

TEST_CASE("CheckedComm: a sink that throws leaves nothing behind, and a rank that throws ends the launch") {
  struct Sink final : EventSink {
    void record(const Event&) override { throw std::runtime_error("boom"); }
  } sink;
  launch_threads(2, [&](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    double x = 1;
    {
      const SinkScope scope(sink);
      CHECK_THROWS_WITH(static_cast<void>(comm.all_reduce(row_view(&x, 1), row_view(&x, 1))), "boom");
    }
    comm.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
    comm.close();
  });
  const auto body = [](ThreadComm base) {
    CheckedComm comm(std::move(base), {patient, true});
    if (comm.rank() == 1) throw std::runtime_error("boom");
    CHECK_THROWS_AS(comm.barrier(), PeerFailed);
    throw PeerFailed(1, "seen");
  };
  CHECK_THROWS_WITH(launch_threads(3, body), "boom");
}

/// Products over random layouts, as the exact sweep has them.
template <class Ctx, class Wrap>
void check_products(Wrap wrap, int count, unsigned seed) {
  const auto layouts = test::all_layouts();
  const std::array<std::array<int, 3>, 3> grids{{{2, 2, 2}, {1, 2, 3}, {2, 1, 2}}};
  std::mutex mutex;
  std::string failures;
  for (const auto& extents : grids) {
    launch_threads(extents[0] * extents[1] * extents[2], [&](ThreadComm base) {
      Ctx context(CountingComm(CheckedComm(wrap(std::move(base)), {patient, true})));
      AxisValues values{};
      for (std::size_t a = 0; a < 3; ++a) values[a] = extents[a];
      ProcessGrid<Ctx> grid(context, test::names_25d, values);
      std::mt19937 random(seed);
      const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
      for (int done = 0; done < count;) {
        test::ProductCase c;
        c.a = layouts[static_cast<std::size_t>(pick(49))];
        c.b = layouts[static_cast<std::size_t>(pick(49))];
        if (!plan_of(c.a, c.b).valid()) continue;
        ++done;
        c.plan = plan_product(c.a, c.b);
        c.m = pick(16);
        c.n = pick(16);
        c.k = pick(16);
        c.a_transposed = pick(2) == 0;
        c.b_transposed = pick(2) == 0;
        c.beta = pick(3) - 1;
        c.options.panel_width = 1 + pick(3);
        c.options.lookahead = 1 + pick(4);
        c.options.panels = pick(4) == 0 ? PanelMove::all_gather : PanelMove::broadcast;
        c.seed = random();
        const test::CaseResult found = done % 2 == 0 ? test::run_case<double>(grid, c) : test::run_case<float>(grid, c);
        if (found.failure.empty()) continue;
        const std::lock_guard lock(mutex);
        failures += test::describe(c, test::names_25d) + ": " + found.failure + "\n";
      }
      context.comm().base().close();
    });
  }
  INFO(failures);
  CHECK(failures.empty());
}

TEST_CASE("CheckedComm: no false alarm in products, and the counts stay the same") {
  check_products<CheckedContext>([](ThreadComm comm) { return comm; }, 150, 1);
  check_products<CheckedCopies>([](ThreadComm comm) { return test::CopyingComm<ThreadComm>(std::move(comm)); }, 60, 2);
}

}  // namespace
}  // namespace partita
