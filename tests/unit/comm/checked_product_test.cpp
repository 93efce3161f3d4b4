// SPDX-License-Identifier: Apache-2.0
// F02 in products: ranks that multiply differently are all told before anything moves, and go on.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "partita/comm/checked.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/launch.hpp"
#include "partita/partita.hpp"
#include "support/copying_comm.hpp"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

template <class Base>
using Checking = Context<EigenBackend, CountingComm<CheckedComm<Base>>>;

/// How one rank multiplies.
struct Call {
  bool single = false;  // float instead of double
  index_t k = 8;
  Algorithm algorithm = Algorithm::stationary_c;
  double alpha = 1, beta = 0;
  MatmulOptions options;
};

struct Misuse {
  const char* name;
  std::function<void(Call&)> spoil;
  const std::type_info* type;
  const char* text;
};

const std::array<Misuse, 10>& kinds_of_misuse() {
  static const std::array<Misuse, 10> all{{
      {"scalar", [](Call& c) { c.single = true; }, &typeid(TypeMismatch), "the type of the elements"},
      {"k", [](Call& c) { c.k = 9; }, &typeid(ShapeMismatch), "the shape"},
      {"alpha", [](Call& c) { c.alpha = 2; }, &typeid(CollectiveMismatch), "alpha"},
      {"alpha of zero", [](Call& c) { c.alpha = 0; }, &typeid(CollectiveMismatch), "alpha"},
      {"beta", [](Call& c) { c.beta = 1; }, &typeid(CollectiveMismatch), "beta"},
      {"stationary A", [](Call& c) { c.algorithm = Algorithm::stationary_a; }, &typeid(CollectiveMismatch),
       "partitions"},
      {"stationary B", [](Call& c) { c.algorithm = Algorithm::stationary_b; }, &typeid(CollectiveMismatch),
       "partitions"},
      {"width", [](Call& c) { c.options.panel_width = 2; }, &typeid(CollectiveMismatch), "options"},
      {"sum width", [](Call& c) { c.options.sum_width = 2; }, &typeid(CollectiveMismatch), "options"},
      {"lookahead", [](Call& c) { c.options.lookahead = 3; }, &typeid(CollectiveMismatch), "options"},
  }};
  return all;
}

template <class T, class Grid>
auto filled(const Grid& grid, Shape shape, T value) {
  return from_function<T, Summa2D<>>(grid, shape, [value](index_t, index_t) { return value; });
}

/// Operands of all calls on one rank: their making is agreed, so that all ranks have all of them.
template <class T, class Grid>
struct Operands {
  using Tensor = decltype(filled<T>(std::declval<const Grid&>(), Shape{}, T{}));
  Tensor a8, b8, a9, b9, c;

  explicit Operands(const Grid& grid)
      : a8(filled<T>(grid, {8, 8}, 1)),
        b8(filled<T>(grid, {8, 8}, 2)),
        a9(filled<T>(grid, {8, 9}, 1)),
        b9(filled<T>(grid, {9, 8}, 2)),
        c(filled<T>(grid, {8, 8}, 5)) {}

  void multiply(const Call& call) {
    const T alpha = static_cast<T>(call.alpha);
    const T beta = static_cast<T>(call.beta);
    if (call.algorithm == Algorithm::stationary_a) return matmul_into(c, a8, transposed(b8), alpha, beta, call.options);
    if (call.algorithm == Algorithm::stationary_b) return matmul_into(c, transposed(a8), b8, alpha, beta, call.options);
    matmul_into(c, call.k == 8 ? a8 : a9, call.k == 8 ? b8 : b9, alpha, beta, call.options);
  }
  [[nodiscard]] bool c_is(T value) const {
    for (index_t i = 0; i < c.local().rows; ++i) {
      for (index_t j = 0; j < c.local().cols; ++j) {
        if (c.local()(i, j) != value) return false;
      }
    }
    return true;
  }
};

/// What a rank met.
struct Found {
  const std::type_info* type = nullptr;
  std::string text;
  std::size_t calls = 0;
  bool unchanged = false;
  std::chrono::milliseconds after{0};
};

template <class Ctx>
Ctx make_context(ThreadComm base, std::chrono::milliseconds deadline) {
  using Checked = std::remove_reference_t<decltype(std::declval<Ctx&>().comm().base())>;
  using Base = std::remove_reference_t<decltype(std::declval<Checked&>().base())>;
  return Ctx(CountingComm(Checked(Base(std::move(base)), {deadline, true})));
}

constexpr std::chrono::milliseconds patient = std::chrono::seconds(20);

/// One rank multiplies otherwise than the other three; afterwards all multiply alike. What was not as it must be.
template <class Ctx>
std::string run_misuse(const Misuse& misuse, unsigned seed) {
  std::mt19937 random(seed + 1);
  const int guilty = static_cast<int>(random() % 4);
  Call right;
  right.options.panel_width = 1 + static_cast<index_t>(random() % 4) * 3;  // 1, 4, 7 or 10
  right.options.lookahead = 1 + static_cast<int>(random() % 2);
  Call wrong = right;
  misuse.spoil(wrong);
  std::array<Found, 4> found;
  std::array<bool, 4> exact{};
  launch_threads(4, [&](ThreadComm base) {
    Ctx context = make_context<Ctx>(std::move(base), patient);
    const auto rank = static_cast<std::size_t>(context.rank());
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    Operands<double, std::remove_const_t<decltype(grid)>> doubles(grid);
    Operands<float, std::remove_const_t<decltype(grid)>> floats(grid);
    const auto multiply = [&](const Call& call) { call.single ? floats.multiply(call) : doubles.multiply(call); };
    if (seed % 2 == 0) multiply(right);
    const double before = seed % 2 == 0 ? 16 : 5;
    Found& mine = found[rank];
    const auto begin = Clock::now();
    try {
      multiply(context.rank() == guilty ? wrong : right);
    } catch (const CollectiveMismatch& error) {
      mine = {&typeid(error), error.what(), error.calls.size(), doubles.c_is(before) && floats.c_is(5), {}};
    }
    mine.after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    multiply(wrong);
    multiply(right);
    exact[rank] = doubles.c_is(16);
    context.comm().base().close();
  });
  std::string wrongs;
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) wrongs += std::string(misuse.name) + ", seed " + std::to_string(seed) + ": " + what + "\n";
  };
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const Found& f = found[rank];
    require(exact[rank], "a product afterwards is wrong");
    require(f.type != nullptr, "nothing found");
    if (f.type == nullptr) continue;
    require(*f.type == *misuse.type, "another error: " + f.text);
    require(f.text == found[0].text, "the texts differ: " + f.text);
    require(f.text.find(std::string("the ranks differ in ")) != std::string::npos &&
                f.text.find(misuse.text) != std::string::npos,
            "says something else: " + f.text);
    require(f.calls == 4, "not all ranks are named");
    require(f.unchanged, "something was written");
    require(f.after < patient, "late");
  }
  return wrongs;
}

TEST_CASE("F02: ranks that multiply differently are all told before anything moves, and go on") {
  for (const Misuse& misuse : kinds_of_misuse()) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::string wrongs = run_misuse<Checking<ThreadComm>>(misuse, seed);
      INFO(wrongs);
      CHECK(wrongs.empty());
    }
    for (unsigned seed = 0; seed < 3; ++seed) {
      const std::string wrongs = run_misuse<Checking<test::CopyingComm<ThreadComm>>>(misuse, seed);
      INFO(wrongs);
      CHECK(wrongs.empty());
    }
  }
}

TEST_CASE("F02: the text of a product that differs") {
  std::array<std::string, 4> texts;
  launch_threads(4, [&](ThreadComm base) {
    auto context = make_context<Checking<ThreadComm>>(std::move(base), patient);
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    Operands<double, std::remove_const_t<decltype(grid)>> operands(grid);
    Call call;
    if (context.rank() == 2) call.k = 9;
    if (context.rank() == 2) call.alpha = 0.5;
    try {
      operands.multiply(call);
    } catch (const ShapeMismatch& error) {
      texts[static_cast<std::size_t>(context.rank())] = error.what();
    }
  });
  for (const std::string& text : texts) {
    CHECK(text.find("rank 1: product of 8x8 by 8x8 double, alpha 1, beta 0, arrangement ") != std::string::npos);
    CHECK(text.find("rank 2: product of 8x9 by 9x8 double, alpha 0.5, beta 0, arrangement ") != std::string::npos);
  }
}

TEST_CASE("A product that one rank leaves out is a missing call on all, and the ranks go on") {
  std::atomic<int> given_up{0};
  launch_threads(4, [&](ThreadComm base) {
    auto context = make_context<Checking<ThreadComm>>(std::move(base), patient);
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    Operands<double, std::remove_const_t<decltype(grid)>> operands(grid);
    if (context.rank() == 3) {
      while (given_up.load() < 3) std::this_thread::yield();
    } else {
      context.comm().base().set_deadline(std::chrono::milliseconds(20));
    }
    CHECK_THROWS_AS(operands.multiply({}), MissingCall);
    CHECK(operands.c_is(5));
    context.comm().base().set_deadline(patient);
    ++given_up;
    operands.multiply({});
    CHECK(operands.c_is(16));
    context.comm().base().close();
  });
}

TEST_CASE("A rank that fails inside a product ends the launch, and a fresh one works") {
  struct Sink final : EventSink {
    int left = 3;
    void record(const Event&) override {
      if (left-- == 0) throw std::runtime_error("boom");
    }
  };
  for (int round = 0; round < 10; ++round) {
    const auto body = [&](ThreadComm base, bool fails) {
      auto context = make_context<Checking<ThreadComm>>(std::move(base), patient);
      const auto grid = make_grid<Grid2D<>>(context, 2, 2);
      Operands<double, std::remove_const_t<decltype(grid)>> operands(grid);
      Call call;
      call.options.panel_width = 1;
      Sink sink;
      sink.left = fails && context.rank() == round % 4 ? 1 + round : 1'000'000;
      const SinkScope scope(sink);
      operands.multiply(call);
      CHECK(operands.c_is(16));
    };
    CHECK_THROWS_WITH(launch_threads(4, [&](ThreadComm base) { body(std::move(base), true); }), "boom");
    launch_threads(4, [&](ThreadComm base) { body(std::move(base), false); });
  }
}

}  // namespace
}  // namespace partita
