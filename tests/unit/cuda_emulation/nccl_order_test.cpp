// SPDX-License-Identifier: Apache-2.0
// The order that NCCL's operations make and do not make, and what is seen while they run.
#include <atomic>
#include <cmath>
#include <cstring>

#include "cuda_emulation/kernel.hpp"
#include "unit/cuda_emulation/nccl_support.hpp"

namespace partita::cuda_emulation {
namespace {

using Values = std::vector<float>;

TEST_CASE("While a receive is in flight, its buffer is NaN") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  std::atomic<bool> seen{false};
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Stream s;
    const Array<float> a(Values{1});
    if (rank == 0) {
      while (!seen) std::this_thread::yield();
    }
    ok(ncclBroadcast(a.data, a.data, 1, ncclFloat32, 0, comm, s));
    while (rank == 1 && !seen) {
      float x = 0;
      std::memcpy(&x, peek(a.data, sizeof x).data(), sizeof x);
      if (std::isnan(x)) seen = true;
    }
    s.sync();
    CHECK(a.host() == Values{1});
    comm.destroy();
  });
}

TEST_CASE("Early, a broadcast's root is done before the others begin; late, it is not") {
  for (const Progress progress : {Progress::earliest, Progress::latest}) {
    const Fresh fresh(with(progress));
    const ncclUniqueId id = unique_id();
    std::atomic<int> asked{0};
    on_ranks(2, [&](int rank) {
      Comm comm(2, id, rank);
      const Stream s;
      const Array<float> a(Values{1});
      while (rank == 1 && asked == 0) std::this_thread::yield();
      ok(ncclBroadcast(a.data, a.data, 1, ncclFloat32, 0, comm, s));
      if (rank == 0) {
        (void)cudaStreamQuery(s);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(cudaStreamQuery(s) == (progress == Progress::earliest ? cudaSuccess : cudaErrorNotReady));
        asked = 1;
      }
      s.sync();
      comm.destroy();
    });
  }
}

/// Rank 0 broadcasts and then writes its buffer on another stream; rank 1 receives and then reads it likewise.
void broadcast_between_streams(bool waits_at_root, bool waits_at_receiver) {
  const ncclUniqueId id = unique_id();
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Array<float> a(Values{1}, "a of rank " + std::to_string(rank));
    const Stream compute("compute");
    const Stream communicate("communicate");
    const Event ready;
    const Event done;
    ok(cudaMemsetAsync(a.data, 0, 4, compute));
    ok(cudaEventRecord(ready, compute));
    ok(cudaStreamWaitEvent(communicate, ready, 0));
    ok(ncclBroadcast(a.data, a.data, 1, ncclFloat32, 0, comm, communicate));
    ok(cudaEventRecord(done, communicate));
    if (rank == 0 ? waits_at_root : waits_at_receiver) ok(cudaStreamWaitEvent(compute, done, 0));
    const Rectangle r(a.data, 4);
    REQUIRE(launch(rank == 0 ? "overwrite" : "use", compute, {rank == 0 ? writes(r) : reads(r)}, [] {}));
    ok(cudaDeviceSynchronize());
    comm.destroy();
  });
}

TEST_CASE("A stream that overtakes a broadcast is found, on the root and on a receiver") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    broadcast_between_streams(true, true);
    found_nothing();
    broadcast_between_streams(false, true);
    found(Finding::race,
          {"'a of rank 0'", "ncclBroadcast(1 float32, root 0) of rank 0", "reads", "overwrite", "writes"});
    broadcast_between_streams(true, false);
    found(Finding::race, {"'a of rank 1'", "ncclBroadcast(1 float32, root 0) of rank 1", "writes", "use", "reads"});
  }
}

TEST_CASE("A receive is after its send; a broadcast's root learns nothing of the others") {
  for (const bool back : {false, true}) {  // what rank 1 did before is known to rank 0 only if something comes back
    CAPTURE(back);
    const Fresh fresh(with(Progress::normal, 2));
    const Array<float> shared(4, "shared");
    const ncclUniqueId id = unique_id();
    on_ranks(2, [&](int rank) {
      Comm comm(2, id, rank);
      const Array<float> a(Values{1});
      const Stream s(rank == 0 ? "zero" : "one");
      if (rank == 1) ok(cudaDeviceEnablePeerAccess(0, 0));
      const Rectangle r(shared.data, 16);
      if (rank == 1) REQUIRE(launch("before", s, {writes(r)}, [] {}));
      if (back) {
        ok(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, comm, s));
      } else {
        ok(ncclBroadcast(a.data, a.data, 1, ncclFloat32, 0, comm, s));
      }
      if (rank == 0) REQUIRE(launch("after", s, {writes(r)}, [] {}));
      s.sync();
      comm.destroy();
    });
    if (back) {
      found_nothing();
    } else {
      found(Finding::race, {"'shared'", "before", "after"});
    }
  }
}

TEST_CASE("A group on several streams joins them") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Array<float> a(Values{1});
    const Array<float> b(Values{2});
    const Stream s("s");
    const Stream t("t");
    ok(cudaMemsetAsync(b.data, 0, 4, t));
    ok(ncclGroupStart());
    ok(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, comm, s));
    ok(ncclAllReduce(b.data, b.data, 1, ncclFloat32, ncclSum, comm, t));
    ok(ncclGroupEnd());
    ok(cudaMemsetAsync(b.data, 0, 4, s));
    s.sync();
    t.sync();
    comm.destroy();
  });
}

}  // namespace
}  // namespace partita::cuda_emulation
