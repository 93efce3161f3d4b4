// SPDX-License-Identifier: Apache-2.0
// Several ranks on one device, as threads with a stream each, that read each other's buffers: what orders them is a
// host barrier and events, and each wait of theirs is needed.
#include <array>
#include <barrier>
#include <memory>

#include "cuda_emulation/kernel.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

constexpr int ranks = 4;
constexpr int rounds = 2;
constexpr std::size_t count = 8;

/// A barrier that tells the stand-ins what it orders.
class Meeting {
 public:
  void wait() {
    publish(this);
    barrier_.arrive_and_wait();
    observe(this);
  }

 private:
  std::barrier<> barrier_{ranks};
};

struct Rank {
  Rank() : stream("compute"), buffer(count, "buffer"), sum(count, "sum") {}
  Stream stream;
  Array<float> buffer;
  Array<float> sum;
  Event ready;
  Event done;
};

/// Each round every rank fills its buffer and sums all buffers.
///
///   fill own buffer   after the sums of all peers in the round before (their done events)
///   sum all buffers   after the fills of all peers (their ready events)
/// With something missing, kernels move nothing: the thread sanitizer would be right to complain.
void sum_over_ranks(bool meets, bool whole) {
  std::array<std::unique_ptr<Rank>, ranks> all;
  for (auto& r : all) r = std::make_unique<Rank>();
  ok(cudaDeviceSynchronize());
  Meeting filled;
  Meeting summed;
  const auto body = [&](int self) {
    Rank& own = *all[static_cast<std::size_t>(self)];
    for (int round = 0; round < rounds; ++round) {
      for (const auto& peer : all) {
        if (round > 0 && peer.get() != &own) ok(cudaStreamWaitEvent(own.stream, peer->done, 0));
      }
      float* mine = bytes_of(own.buffer.data);
      REQUIRE(launch("fill", own.stream, {writes({own.buffer.data, own.buffer.bytes()})}, [=] {
        for (std::size_t i = 0; i < count && whole; ++i) mine[i] = static_cast<float>(self + 10 * round);
      }));
      ok(cudaEventRecord(own.ready, own.stream));
      if (meets) filled.wait();
      std::vector<Access> touched{writes({own.sum.data, own.sum.bytes()})};
      std::vector<const float*> from;
      for (const auto& peer : all) {
        if (peer.get() != &own) ok(cudaStreamWaitEvent(own.stream, peer->ready, 0));
        touched.push_back(reads({peer->buffer.data, peer->buffer.bytes()}));
        from.push_back(bytes_of(peer->buffer.data));
      }
      float* out = bytes_of(own.sum.data);
      REQUIRE(launch("sum", own.stream, touched, [=] {
        for (std::size_t i = 0; i < count && whole; ++i) {
          out[i] = 0;
          for (const float* p : from) out[i] += p[i];
        }
      }));
      ok(cudaEventRecord(own.done, own.stream));
      summed.wait();
    }
    own.stream.sync();
    float total = 0;
    for (int peer = 0; peer < ranks; ++peer) total += static_cast<float>(peer + 10 * (rounds - 1));
    if (whole) CHECK(own.sum.host() == std::vector<float>(count, total));
  };
  static char begun;
  static char ended;
  publish(&begun);
  std::vector<std::thread> threads;
  for (int self = 0; self < ranks; ++self) {
    threads.emplace_back([&, self] {
      observe(&begun);
      body(self);
      publish(&ended);
    });
  }
  for (std::thread& t : threads) t.join();
  observe(&ended);
}

TEST_CASE("Ranks on one device read each other's buffers in order") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress, 1));
    sum_over_ranks(true, true);
    CHECK(counters().waits == ranks * (ranks - 1) * (2 * rounds - 1));
  }
}

TEST_CASE("Without the host barrier, a record that may not be there yet is found") {
  const Fresh fresh(with(Progress::normal, 1));
  sum_over_ranks(false, false);
  found(Finding::race, {"and no order relates"});
  (void)take_reports();
}

TEST_CASE("Each of their waits, dropped, is found") {
  for (std::int64_t n = 1; n <= ranks * (ranks - 1) * (2 * rounds - 1); ++n) {
    CAPTURE(n);
    const Fresh fresh(with(Progress::normal, 1));
    drop_wait(n);
    sum_over_ranks(true, false);
    CHECK(counters().dropped_waits == 1);
    found(Finding::race, {"'buffer'", "fill on stream 'compute'", "sum on stream 'compute'"});
    (void)take_reports();
  }
}

}  // namespace
}  // namespace partita::cuda_emulation
