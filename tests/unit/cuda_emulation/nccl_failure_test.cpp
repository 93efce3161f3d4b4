// SPDX-License-Identifier: Apache-2.0
// What goes wrong between ranks: calls that differ, ranks that stay away, communicators that are given up.
#include <atomic>
#include <cmath>

#include "unit/cuda_emulation/nccl_support.hpp"

namespace partita::cuda_emulation {
namespace {

using Values = std::vector<float>;

/// `call(rank)` on two ranks; both leave, whatever it is.
template <class Call>
void two_ranks(Call call) {
  const ncclUniqueId id = unique_id();
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Stream s;
    const Array<float> a(Values(8, 1.0F));
    (void)call(rank, comm.handle, a.data, s.handle);
    while (cudaStreamQuery(s) == cudaErrorNotReady && comm.state() == ncclSuccess) std::this_thread::yield();
    comm.abort();
    s.sync();
  });
}

TEST_CASE("Calls that do not match are told by name, and nobody hangs") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    two_ranks([](int rank, ncclComm_t comm, float* a, cudaStream_t s) {
      if (rank == 0) return ncclBroadcast(a, a, 4, ncclFloat32, 0, comm, s);
      return ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comm, s);
    });
    found(Finding::mismatch,
          {"operation 0 of communicator #", "ncclBroadcast(4 float32, root 0)", "ncclAllReduce(4 float32, sum)"});
    two_ranks([](int rank, ncclComm_t comm, float* a, cudaStream_t s) {
      return ncclBroadcast(a, a, 4, ncclFloat32, rank, comm, s);
    });
    found(Finding::mismatch, {"root 0", "root 1"});
    two_ranks([](int rank, ncclComm_t comm, float* a, cudaStream_t s) {
      return ncclAllReduce(a, a, rank == 0 ? 4 : 5, ncclFloat32, ncclSum, comm, s);
    });
    found(Finding::mismatch, {"4 float32", "5 float32"});
    two_ranks([](int rank, ncclComm_t comm, float* a, cudaStream_t s) {
      return ncclAllReduce(a, a, 4, ncclFloat32, rank == 0 ? ncclSum : ncclMax, comm, s);
    });
    found(Finding::mismatch, {"sum", "maximum"});
    two_ranks([](int rank, ncclComm_t comm, float* a, cudaStream_t s) {
      return rank == 0 ? ncclSend(a, 4, ncclFloat32, 1, comm, s) : ncclRecv(a, 4, ncclInt32, 0, comm, s);
    });
    found(Finding::mismatch, {"message 0 from 0 to 1", "ncclSend(4 float32, to 1)", "ncclRecv(4 int32, from 0)"});
  }
}

TEST_CASE("A split against another call is a mismatch") {
  const Fresh fresh;
  two_ranks([](int rank, ncclComm_t comm, float* a, cudaStream_t s) {
    if (rank == 1) return ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comm, s);
    ncclComm_t part = nullptr;
    return ncclCommSplit(comm, 0, 0, &part, nullptr);
  });
  found(Finding::mismatch, {"ncclCommSplit", "ncclAllReduce"});
}

TEST_CASE("Buffers that overlap without being in place are refused") {
  const Fresh fresh;
  two_ranks([](int, ncclComm_t comm, float* a, cudaStream_t s) {
    return ncclAllReduce(a, a + 1, 4, ncclFloat32, ncclSum, comm, s);
  });
  found(Finding::misuse, {"ncclAllReduce", "overlap"});
}

TEST_CASE("A buffer, a stream or a root that is wrong is refused") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Stream s;
    const Array<float> a(Values(4, 1.0F), "a");
    CHECK(ncclAllReduce(a.data, a.data, 5, ncclFloat32, ncclSum, comm, s) == ncclInvalidArgument);
    CHECK(ncclBroadcast(a.data, a.data, 4, ncclFloat32, 2, comm, s) == ncclInvalidArgument);
    comm.destroy();
  });
  found(Finding::bounds, {"ncclAllReduce(5 float32, sum)", "'a'"});
  (void)take_reports();
}

TEST_CASE("Two ranks on one device are refused, as NCCL 2.28 does") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      CHECK(ncclCommInitRank(&comm, 2, id, rank) == ncclInvalidUsage);
      ok(ncclCommAbort(comm));
    });
  }
  for (std::thread& t : ranks) t.join();
  found(Finding::misuse, {"two ranks on device 0"});
}

TEST_CASE("A rank that does not come: the others wait, and an abort frees them") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    const ncclUniqueId id = unique_id();
    on_ranks(3, [&](int rank) {
      Comm comm(3, id, rank);
      const Stream s;
      const Array<float> a(Values(4, 1.0F));
      if (rank != 2) {
        ok(ncclAllReduce(a.data, a.data, 4, ncclFloat32, ncclSum, comm, s));
        for (int i = 0; i < 20; ++i) {
          CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
          CHECK(comm.state() == ncclSuccess);  // nobody tells
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
      comm.abort();
      s.sync();
    });
  }
}

TEST_CASE("A revoked communicator stops its operations, and may be split or destroyed") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    const ncclUniqueId id = unique_id();
    on_ranks(2, [&](int rank) {
      Comm comm(2, id, rank);
      const Stream s;
      const Array<float> a(Values(4, 1.0F));
      if (rank == 0) ok(ncclAllReduce(a.data, a.data, 4, ncclFloat32, ncclSum, comm, s));
      ok(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
      CHECK(comm.settled() == ncclSuccess);
      s.sync();
      CHECK(ncclAllReduce(a.data, a.data, 4, ncclFloat32, ncclSum, comm, s) == ncclInvalidUsage);
      comm.destroy();
    });
    found(Finding::misuse, {"not ready for operations"});
    (void)take_reports();
  }
}

TEST_CASE("Non-blocking communicators are ready when a poll says so") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    const ncclUniqueId id = unique_id();
    on_ranks(2, [&](int rank) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      Comm comm;
      CHECK(ncclCommInitRankConfig(&comm.handle, 2, id, rank, &config) == ncclInProgress);
      CHECK(comm.settled() == ncclSuccess);
      Comm part;
      const ncclResult_t split = ncclCommSplit(comm, 0, rank, &part.handle, nullptr);
      CHECK(split == ncclInProgress);
      CHECK(part.settled() == ncclSuccess);
      const Stream s;
      const Array<float> a(Values{1});
      const ncclResult_t begun = ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, part, s);
      CHECK(begun == (progress == Progress::latest ? ncclInProgress : ncclSuccess));
      CHECK(part.settled() == ncclSuccess);  // only now is it on the stream
      s.sync();
      CHECK(a.host() == Values{2});
      (void)ncclCommFinalize(part);
      CHECK(part.settled() == ncclSuccess);
      part.destroy();
      comm.destroy();
    });
  }
}

TEST_CASE("An operation on a communicator that is not ready is a misuse") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Comm comm;
  CHECK(ncclCommInitRankConfig(&comm.handle, 2, id, 0, &config) == ncclInProgress);
  const Stream s;
  const Array<float> a(Values{1});
  CHECK(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, comm, s) == ncclInvalidUsage);
  found(Finding::misuse, {"not ready"});
  CHECK(comm.state() == ncclInProgress);
  comm.abort();
}

TEST_CASE("NCCL calls fail when they shall; an asynchronous failure is seen by polling alone") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  fail_call({Library::nccl, 1, ncclSystemError, "ncclAllReduce", 1, false});
  fail_call({Library::nccl, 1, ncclRemoteError, "ncclBroadcast", 0, true});
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Stream s;
    const Array<float> a(Values{1});
    if (rank == 1) CHECK(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, comm, s) == ncclSystemError);
    ok(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, comm, s));
    s.sync();
    ok(ncclBroadcast(a.data, a.data, 1, ncclFloat32, 0, comm, s));
    if (rank == 0) {
      while (comm.state() == ncclSuccess) std::this_thread::yield();
      CHECK(comm.state() == ncclRemoteError);
      CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    }
    comm.abort();
    s.sync();
  });
}

/// Two communicators whose operations run on two streams, in opposite orders on the two ranks.
void crossed(bool one_stream) {
  const ncclUniqueId id = unique_id();
  const ncclUniqueId other = unique_id();
  on_ranks(2, [&](int rank) {
    Comm first(2, id, rank);
    Comm second(2, other, rank);
    const Stream s("s");
    const Stream t("t");
    const Array<float> a(Values{1});
    const Array<float> b(Values{1});
    const auto sum = [&](const Array<float>& x, const Comm& comm, const Stream& stream) {
      ok(ncclAllReduce(x.data, x.data, 1, ncclFloat32, ncclSum, comm, stream));
    };
    if (one_stream) {
      sum(a, first, s);
      sum(b, second, s);
    } else if (rank == 0) {
      sum(a, first, s);
      sum(b, second, t);
    } else {
      sum(b, second, t);
      sum(a, first, s);
    }
    (void)cudaDeviceSynchronize();
    first.abort();
    second.abort();
  });
}

TEST_CASE("One collective at a time: two streams without order are found, one stream is right") {
  Options options;
  options.one_collective_per_device = true;
  {
    const Fresh fresh(options);
    crossed(true);
  }
  options.watchdog = std::chrono::seconds(2);
  const Fresh fresh(options);
  crossed(false);  // may or may not hang, and is found anyway
  found(Finding::race, {"collective slot of device", "ncclAllReduce"});
  (void)take_reports();
}

TEST_CASE("Messages that wait for each other hang late, and are named") {
  Options options = with(Progress::latest);
  options.watchdog = std::chrono::seconds(2);  // after both ranks have begun to send
  const Fresh fresh(options);
  const ncclUniqueId id = unique_id();
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Array<float> a(Values{1});
    const Array<float> b(1);
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(ncclSend(a.data, 1, ncclFloat32, 1 - rank, comm, s));  // no group
    ok(ncclRecv(b.data, 1, ncclFloat32, 1 - rank, comm, s));
    CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchTimeout);
    comm.abort();
    ok(cudaStreamDestroy(s));
  });
  found(Finding::hang, {"ncclSend(1 float32, to 1)", "ncclSend(1 float32, to 0)", "started"});
}

}  // namespace
}  // namespace partita::cuda_emulation
