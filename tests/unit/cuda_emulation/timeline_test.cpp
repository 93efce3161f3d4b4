// SPDX-License-Identifier: Apache-2.0
// CudaTimeline on the stand-ins: a stream waits for the other where both touch the same bytes and one writes them.
#include "partita/cuda/timeline.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "partita/comm/cuda_memory.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using cuda_emulation::Fresh;

/// Bytes of a matrix of 8 rows of 16 that both streams touch, one operation at a time.
class Shared {
 public:
  explicit Shared(CudaTimeline& timeline)
      : timeline_(timeline), data_(static_cast<std::byte*>(timeline.allocate(128))) {
    compute(all());
  }
  ~Shared() { timeline_.free(data_, 128); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  [[nodiscard]] View<std::byte> all() const { return {data_, 8, 16, 16}; }
  [[nodiscard]] View<std::byte> left() const { return all().sub({{0, 8}, {0, 8}}); }
  [[nodiscard]] View<std::byte> right() const { return all().sub({{0, 8}, {8, 16}}); }
  [[nodiscard]] View<std::byte> top() const { return all().sub({{0, 4}, {0, 16}}); }

  void compute(View<std::byte> to) {
    timeline_.before_compute({cuda_access(to)});
    set(to, timeline_.compute());
  }
  void move(View<std::byte> to) {
    timeline_.before_communication({cuda_access(to)});
    set(to, timeline_.communication());
    timeline_.after_communication({cuda_access(to)});
  }
  void read_for_communication(View<const std::byte> from) {
    timeline_.before_communication({cuda_access(from)});
    timeline_.after_communication({cuda_access(from)});
  }
  void read_for_compute(View<const std::byte> from) { timeline_.before_compute({cuda_access(from)}); }

 private:
  static void set(View<std::byte> to, cudaStream_t stream) {
    const auto bytes = [](index_t n) { return static_cast<std::size_t>(n); };
    REQUIRE(cudaMemset2DAsync(to.data, bytes(to.ld), 1, bytes(to.cols), bytes(to.rows), stream) == cudaSuccess);
  }

  CudaTimeline& timeline_;
  std::byte* data_;
};

std::int64_t waits() { return cuda_emulation::counters().waits; }

TEST_CASE("A stream waits once for all that the other did before, and only for what it touches itself") {
  const Fresh machine;
  CudaTimeline timeline;
  Shared memory(timeline);
  CHECK(waits() == 0);
  memory.move(memory.left());  // after the first write
  CHECK(waits() == 1);
  memory.move(memory.top());  // that write is known, and streams are in order
  CHECK(waits() == 1);
  memory.compute(memory.right());  // touches the top
  CHECK(waits() == 2);
  memory.compute(memory.left());  // so the move before it is known too
  CHECK(waits() == 2);
  memory.move(memory.right());
  CHECK(waits() == 3);
  memory.compute(memory.left());  // beside it, in the same rows
  CHECK(waits() == 3);
}

TEST_CASE("Two that read wait for nothing, and a write waits for the latest reader") {
  const Fresh machine;
  CudaTimeline timeline;
  Shared memory(timeline);
  memory.read_for_communication(memory.all());
  CHECK(waits() == 1);
  memory.read_for_compute(memory.all());
  memory.read_for_communication(memory.left());
  CHECK(waits() == 1);
  memory.compute(memory.right());  // one reader of the right
  CHECK(waits() == 2);
  memory.compute(memory.left());  // and a later one of the left
  CHECK(waits() == 3);
  memory.compute(memory.all());
  CHECK(waits() == 3);
}

TEST_CASE("What the host has waited for is known to both streams") {
  const Fresh machine;
  CudaTimeline timeline;
  Shared memory(timeline);
  memory.move(memory.all());
  const std::int64_t before = waits();
  timeline.sync();
  memory.compute(memory.all());
  CHECK(waits() == before);
  timeline.sync();
  memory.move(memory.all());
  CHECK(waits() == before);
}

TEST_CASE("Hundreds of accesses that nobody waits for are remembered well enough") {
  const Fresh machine;
  CudaTimeline timeline;
  Shared memory(timeline);
  Shared other(timeline);
  for (index_t i = 0; i < 400; ++i) memory.compute(memory.all().sub({{i % 8, i % 8 + 1}, {i % 16, i % 16 + 1}}));
  for (index_t i = 0; i < 400; ++i) memory.move(memory.all().sub({{i % 8, i % 8 + 1}, {i % 13, i % 13 + 2}}));
  memory.compute(memory.all());
  memory.move(memory.all());
  other.move(other.all());
  other.compute(other.all());
}

TEST_CASE("Work of which nothing is known waits for everything, and everything for it") {
  const Fresh machine;
  CudaTimeline timeline;
  Shared memory(timeline);
  memory.move(memory.top());
  std::int64_t before = waits();
  timeline.before_compute({cuda_everything()});
  CHECK(waits() == before + 1);
  before = waits();
  memory.move(memory.right());
  CHECK(waits() == before + 1);
  timeline.before_compute({cuda_everything()});
  CHECK(waits() == before + 2);
}

TEST_CASE("Memory goes back once communication is done with it, and a missing wait would be a race") {
  for (const bool dropped : {false, true}) {
    const Fresh machine;
    const auto timeline = std::make_shared<CudaTimeline>();
    {
      const Memory memory = detail::allocate_on_device(timeline, 64);
      const View<std::byte> all(memory.get(), 1, 64, 64);
      timeline->before_communication({cuda_access(all)});
      REQUIRE(cudaMemsetAsync(all.data, 0, 64, timeline->communication()) == cudaSuccess);
      timeline->after_communication({cuda_access(all)});
      if (dropped) cuda_emulation::drop_wait(1);
    }
    timeline->sync();
    CHECK(cuda_emulation::take_reports().empty() == !dropped);
  }
}

TEST_CASE("The watch is asked while the host waits, and what it throws ends the wait") {
  const Fresh machine;
  CudaTimeline timeline;
  struct Trouble {};
  timeline.watch_with([](auto) { throw Trouble{}; });
  Shared memory(timeline);
  bool thrown = false;
  for (int i = 0; i < 200 && !thrown; ++i) {
    for (int j = 0; j < 50; ++j) memory.compute(memory.all());
    try {
      timeline.sync();
    } catch (const Trouble&) {
      thrown = true;
    }
  }
  CHECK(thrown);
  timeline.watch_with({});
  timeline.sync();
}

TEST_CASE("accesses conflict where they share a byte, exactly if both are parts of one matrix or single rows of it") {
  constexpr std::size_t pitch = 5;
  std::byte memory[64];
  const auto touched = [&](const CudaAccess& access) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < access.rows; ++i) {
      for (std::size_t j = 0; j < access.width; ++j) {
        bytes |= std::uint64_t{1} << (static_cast<std::size_t>(access.data - memory) + i * access.pitch + j);
      }
    }
    return bytes;
  };
  std::vector<CudaAccess> parts;
  for (std::size_t first = 0; first < 2 * pitch; ++first) {
    for (std::size_t width = 1; width <= pitch - first % pitch; ++width) {
      for (std::size_t rows = 1; rows <= 3; ++rows) {
        parts.push_back({memory + first, rows == 1 ? width : pitch, width, rows, true});
      }
    }
  }
  for (const CudaAccess& part : parts) {
    CHECK(detail::conflict(part, cuda_everything()));
    CHECK(detail::conflict(cuda_everything(), part));
  }
  std::int64_t apart = 0;
  std::int64_t wrong = 0;
  for (const CudaAccess& a : parts) {
    for (const CudaAccess& b : parts) {
      const bool shared = (touched(a) & touched(b)) != 0;
      if (detail::conflict(a, b) != shared) ++wrong;
      if (!shared) ++apart;
      CudaAccess other = b;  // a matrix with other rows: never too few
      other.pitch = pitch + 2;
      if ((touched(a) & touched(other)) != 0 && !detail::conflict(a, other)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(apart > 1000);
}

}  // namespace
}  // namespace partita
