// SPDX-License-Identifier: Apache-2.0
// Bodies as operations: what they touch is ordered and in reach, and what is not so is reported with the body's name.
#include <doctest/doctest.h>

#include "cuda_emulation/for_each_index.hpp"
#include "partita/nn/kernel/elementwise.hpp"
#include "unit/cuda/support.hpp"

namespace partita {
namespace {

/// A body of a program's own: out = in + 1, of one index.
struct Increment {
  View<const float> in;
  View<float> out;
  constexpr auto with_views(auto&& f) { return f(in, out); }
  constexpr void operator()(index_t i) const {
    for (index_t j = 0; j < out.cols; ++j) out(i, j) = in(i, j) + 1;
  }
};

}  // namespace

template struct CudaKernels<BodyList<Increment>>;

namespace {

using cuda_emulation::Array;
using cuda_emulation::Finding;
using cuda_emulation::found;
using cuda_emulation::Fresh;
using cuda_emulation::ok;

View<float> matrix(const Array<float>& memory) { return {memory.data, 4, 4, 4}; }

/// What a communicator does: an operation that writes the memory.
void communicate(CudaTimeline& timeline, const Array<float>& memory) {
  const auto access = {cuda_access(matrix(memory))};
  timeline.before_communication(access);
  ok(cudaMemsetAsync(memory.data, 0, memory.bytes(), timeline.communication()));
  timeline.after_communication(access);
}

struct Program {
  Program() : backend(test::small_backend()), a(16, "a"), b(16, "b"), out(16, "out") {
    backend.clear(matrix(a));
    backend.clear(matrix(b));
    backend.clear(matrix(out));
  }
  void add() { backend.for_each_index(4, kernel::Add<float>{matrix(a), matrix(b), matrix(out)}); }

  CudaBackend backend;
  Array<float> a;
  Array<float> b;
  Array<float> out;
};

TEST_CASE("A program's own body") {
  const Fresh fresh;
  Program p;
  p.backend.for_each_index(4, Increment{matrix(p.a), matrix(p.out)});
  p.backend.sync();
  CHECK(p.out.host() == std::vector<float>(16, 1.0F));
}

TEST_CASE("A body and communication that touch the same memory are ordered; without each wait that is reported") {
  for (int which = 0; which < 3; ++which) {
    CAPTURE(which);
    const auto program = [which] {
      Program p;
      communicate(*p.backend.timeline(), which == 0 ? p.a : which == 1 ? p.b : p.out);  // a read after it, or a write
      p.add();
      communicate(*p.backend.timeline(), which == 0 ? p.a : which == 1 ? p.b : p.out);  // and again a write
      p.backend.sync();
    };
    std::int64_t waits = 0;
    {
      const Fresh fresh;
      program();
      waits = cuda_emulation::counters().waits;
    }
    CHECK(waits == 3);
    for (std::int64_t n = 1; n <= waits; ++n) {
      const Fresh fresh;
      cuda_emulation::drop_wait(n);
      program();
      found(Finding::race, {n == 1 ? "cudaMemset" : "Add<float>", which == 0 ? "a" : which == 1 ? "b" : "out"});
    }
  }
}

TEST_CASE("A body beside communication on other memory waits for nothing") {
  const Fresh fresh;
  Program p;
  Array<float> other(16);
  communicate(*p.backend.timeline(), other);
  p.add();
  p.backend.sync();
  CHECK(cuda_emulation::counters().waits == 0);
}

TEST_CASE("A body outside of an allocation is reported, and an error") {
  const Fresh fresh;
  Program p;
  const View<float> large(p.out.data, 4, 5, 8);
  CHECK_THROWS_AS(p.backend.for_each_index(4, Increment{matrix(p.a), large}), CudaError);
  found(Finding::bounds, {"Increment", "out"});
}

TEST_CASE("A body on memory of the host is reported, and an error") {
  const Fresh fresh;
  Program p;
  float host[16] = {};
  CHECK_THROWS_AS(p.backend.for_each_index(4, Increment{View<const float>(host, 4, 4, 4), matrix(p.out)}), CudaError);
  found(Finding::misuse, {"Increment reads memory of the host"});
}

}  // namespace
}  // namespace partita
