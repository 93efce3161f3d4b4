// SPDX-License-Identifier: Apache-2.0
// The race check: each missing edge is found, at once and whatever runs first, and none is found where there is one.
#include "cuda_emulation/order.hpp"

#include "cuda_emulation/kernel.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

template <class T>
void touch(const char* what, cudaStream_t stream, const T* data, std::size_t count, bool written) {
  const Rectangle r(data, count * sizeof(T));
  REQUIRE(launch(what, stream, {written ? writes(r) : reads(r)}, [] {}));
}

TEST_CASE("Two streams that touch the same bytes need an event between them") {
  for (const Progress progress : all_progress) {
    for (const bool first_writes : {true, false}) {
      for (const bool second_writes : {true, false}) {
        const Fresh fresh(with(progress));
        const Array<float> a(16, "a");
        const Stream s("s");
        const Stream t("t");
        const Event e;
        touch("first", s, a.data, 16, first_writes);
        ok(cudaEventRecord(e, s));
        ok(cudaStreamWaitEvent(t, e, 0));
        touch("second", t, a.data, 16, second_writes);
        found_nothing();
        ok(cudaDeviceSynchronize());

        touch("third", s, a.data, 16, first_writes);
        touch("fourth", t, a.data, 16, second_writes);
        if (first_writes || second_writes) {
          found(Finding::race,
                {"'a'", "third on stream 's'", first_writes ? "writes" : "reads", "fourth on stream 't'", "no order"});
        }
        found_nothing();
      }
    }
  }
}

TEST_CASE("An event that was recorded too early orders nothing that follows") {
  const Fresh fresh;
  const Array<float> a(16, "a");
  const Stream s("s");
  const Stream t("t");
  const Event e;
  ok(cudaEventRecord(e, s));
  touch("writer", s, a.data, 16, true);
  ok(cudaStreamWaitEvent(t, e, 0));
  touch("reader", t, a.data, 16, false);
  found(Finding::race, {"writer", "reader"});
}

TEST_CASE("Order passes through other streams") {
  const Fresh fresh;
  const Array<float> a(16);
  const Stream s;
  const Stream t;
  const Stream u;
  const Event e;
  const Event f;
  touch("writer", s, a.data, 16, true);
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(t, e, 0));
  ok(cudaEventRecord(f, t));
  ok(cudaStreamWaitEvent(u, f, 0));
  touch("reader", u, a.data, 16, false);
  found_nothing();
}

TEST_CASE("Rectangles that interleave without touching do not race") {
  const Fresh fresh;
  const Array<float> a(64, "a");
  const Stream s("s");
  const Stream t("t");
  const Rectangle left(a.data, 32, 16, 8);
  const Rectangle right(a.data + 4, 32, 16, 8);
  const Rectangle more(a.data + 3, 32, 20, 8);
  CHECK(launch("left", s, {writes(left)}, [] {}));
  CHECK(launch("right", t, {writes(right)}, [] {}));
  found_nothing();
  CHECK(launch("more", t, {writes(more)}, [] {}));
  found(Finding::race, {"left", "8 rows of 16 bytes at byte 0, pitch 32", "more", "8 rows of 20 bytes at byte 12"});
}

TEST_CASE("overlap and contains agree with a count of bytes") {
  std::vector<char> space(64);
  const auto bytes = [&](const Rectangle& r) {
    std::vector<bool> hit(128);
    const auto from = r.base - reinterpret_cast<std::uintptr_t>(space.data());
    for (std::size_t i = 0; i < r.height; ++i) {
      for (std::size_t j = 0; j < r.width; ++j) hit[from + i * r.pitch + j] = true;
    }
    return hit;
  };
  std::vector<Rectangle> all;
  for (const std::size_t at : {0U, 1U, 3U, 4U, 9U}) {
    for (const std::size_t pitch : {3U, 4U, 6U}) {
      for (const std::size_t width : {0U, 1U, 2U, 3U}) {
        for (const std::size_t height : {0U, 1U, 2U, 4U}) all.emplace_back(space.data() + at, pitch, width, height);
      }
    }
  }
  for (const Rectangle& a : all) {
    const auto in_a = bytes(a);
    for (const Rectangle& b : all) {
      const auto in_b = bytes(b);
      bool meet = false;
      bool inside = true;
      for (std::size_t i = 0; i < in_a.size(); ++i) {
        meet = meet || (in_a[i] && in_b[i]);
        inside = inside && (in_a[i] || !in_b[i]);
      }
      REQUIRE(overlap(a, b) == meet);
      if (contains(a, b)) REQUIRE(inside);
    }
  }
}

TEST_CASE("Each way for the host to wait is an order") {
  for (int way = 0; way < 5; ++way) {
    CAPTURE(way);
    const Fresh fresh;
    const Array<float> a(16, "a");
    const Stream s("s");
    const Stream t("t");
    const Event e;
    touch("writer", s, a.data, 16, true);
    ok(cudaEventRecord(e, s));
    if (way == 0) ok(cudaStreamSynchronize(s));
    if (way == 1) ok(cudaEventSynchronize(e));
    if (way == 2) ok(cudaDeviceSynchronize());
    if (way == 3) {
      while (cudaEventQuery(e) == cudaErrorNotReady) std::this_thread::yield();
    }
    touch("reader", t, a.data, 16, false);
    if (way < 4) {
      found_nothing();
    } else {
      found(Finding::race, {"writer", "reader"});
    }
  }
}

TEST_CASE("What one host thread waited for, another does not know") {
  const Fresh fresh;
  const Array<float> a(16, "a");
  const Stream s("s");
  const Stream t("t");
  touch("writer", s, a.data, 16, true);
  s.sync();
  std::thread([&] {
    observe(&a);  // which nobody has published
    touch("reader", t, a.data, 16, false);
  }).join();
  found(Finding::race, {"writer", "reader"});
}

TEST_CASE("A published point is an order for who observes it") {
  const Fresh fresh;
  const Array<float> a(16, "a");
  const Stream s("s");
  const Stream t("t");
  touch("writer", s, a.data, 16, true);
  s.sync();
  publish(&a);
  std::thread([&] {
    observe(&a);
    touch("reader", t, a.data, 16, false);
  }).join();
  found_nothing();
}

TEST_CASE("A wait for another thread's event needs an order between the threads") {
  for (const bool told : {true, false}) {
    CAPTURE(told);
    const Fresh fresh;
    const Stream s("s");
    const Stream t("t");
    const Event e;
    ok(cudaEventRecord(e, s));
    if (told) publish(&e);
    std::thread([&] {
      if (told) observe(&e);
      ok(cudaStreamWaitEvent(t, e, 0));
    }).join();
    if (told) {
      found_nothing();
    } else {
      found(Finding::race, {"cudaStreamWaitEvent", "another host thread"});
    }
  }
}

TEST_CASE("Memory from a stream's pool is there for others after an event") {
  const Fresh fresh(racing());
  const Stream s("s");
  const Stream t("t");
  const Event e;
  float* p = nullptr;
  ok(cudaMallocAsync(reinterpret_cast<void**>(&p), 64, s));
  touch("early", t, p, 16, true);
  found(Finding::race, {"cudaMallocAsync", "early"});
  ok(cudaFreeAsync(p, t));
  (void)take_reports();

  ok(cudaMallocAsync(reinterpret_cast<void**>(&p), 64, s));
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(t, e, 0));
  touch("in time", t, p, 16, true);
  ok(cudaFreeAsync(p, t));
  found_nothing();
}

TEST_CASE("Every wait of a pipeline, dropped, is found; with all of them there is nothing to find") {
  // copy: fills one of two buffers once its last reader is done; compute: reads it once it is filled.
  const auto pipeline = [] {
    const Array<float> source(16, "source");
    const Array<float> buffers[2] = {Array<float>(16, "even"), Array<float>(16, "odd")};
    const Array<float> sum(16, "sum");
    const Stream copy("copy");
    const Stream compute("compute");
    const Event filled[2];
    const Event read[2];
    ok(cudaMemset(source.data, 0, source.bytes()));
    for (int i = 0; i < 6; ++i) {
      const int b = i % 2;
      if (i >= 2) ok(cudaStreamWaitEvent(copy, read[b], 0));
      ok(cudaMemcpyAsync(buffers[b].data, source.data, 64, cudaMemcpyDeviceToDevice, copy));
      ok(cudaEventRecord(filled[b], copy));
      ok(cudaStreamWaitEvent(compute, filled[b], 0));
      REQUIRE(launch("add", compute, {reads({buffers[b].data, 64}), writes({sum.data, 64})}, [] {}));
      ok(cudaEventRecord(read[b], compute));
    }
    ok(cudaDeviceSynchronize());
  };
  std::int64_t waits = 0;
  {
    const Fresh fresh;
    pipeline();
    waits = counters().waits;
    CHECK(waits == 10);
  }
  for (std::int64_t n = 1; n <= waits; ++n) {
    CAPTURE(n);
    const Fresh fresh;
    drop_wait(n);
    pipeline();
    CHECK(counters().dropped_waits == 1);
    found(Finding::race, {"cudaMemcpyAsync on stream 'copy'", "add on stream 'compute'"});
  }
}

TEST_CASE("A slot of the clocks that goes to a new stream hides nothing") {
  const Fresh fresh;
  const Array<float> a(16, "a");
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    {
      cudaStream_t s = nullptr;
      ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
      touch("old", s, a.data, 16, true);
      if (waits) ok(cudaStreamSynchronize(s));
      ok(cudaStreamDestroy(s));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const Stream s("new");
    touch("new", s, a.data, 16, true);
    if (waits) {
      found_nothing();
    } else {
      found(Finding::race, {"old", "new"});
    }
    s.sync();
  }
}

TEST_CASE("Clocks do not grow with streams and threads that come and go") {
  const Fresh fresh(with(Progress::normal, 4));
  for (int i = 0; i < 50; ++i) {
    on_ranks(4, [](int) {
      const Array<float> a(16);
      const Stream s;
      const Event e;
      ok(cudaMemsetAsync(a.data, 0, 64, s));
      ok(cudaEventRecord(e, s));
      ok(cudaEventSynchronize(e));
      void* p = nullptr;
      cudaStream_t t = nullptr;
      ok(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
      ok(cudaMallocAsync(&p, 16, t));
      ok(cudaStreamSynchronize(t));
      ok(cudaFreeAsync(p, t));  // for which nobody waits
      ok(cudaStreamDestroy(t));
    });
  }
  CHECK(counters().clock_slots <= 80);  // of 600
}

}  // namespace
}  // namespace partita::cuda_emulation
