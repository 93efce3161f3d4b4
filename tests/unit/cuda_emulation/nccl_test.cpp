// SPDX-License-Identifier: Apache-2.0
// NCCL's operations on 1 to 8 ranks and several communicators, early and late.
#include "cuda_emulation/nccl_comm.hpp"

#include <cmath>

#include "unit/cuda_emulation/nccl_support.hpp"

namespace partita::cuda_emulation {
namespace {

using Values = std::vector<float>;

Values part(const Values& v, std::size_t from, std::size_t count) {
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(from);
  return {at, at + static_cast<std::ptrdiff_t>(count)};
}

/// What every rank of `ranks` has to see of each operation.
void check_operations(int ranks, int rank, ncclComm_t comm) {
  const Stream s;
  const auto n = static_cast<std::size_t>(ranks);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t count = 3;
  const std::size_t all = n * count;
  const int root = ranks - 1;
  Values sum(all);
  for (int i = 0; i < ranks; ++i) {
    for (std::size_t k = 0; k < all; ++k) sum[k] += numbers(all, i)[k];
  }
  const Array<float> in(numbers(all, rank));
  {
    const Array<float> out(all);
    ok(ncclBroadcast(in.data, out.data, all, ncclFloat32, root, comm, s));
    s.sync();
    CHECK(out.host() == numbers(all, root));
  }
  {
    const Array<float> out(all);
    ok(ncclReduce(in.data, out.data, all, ncclFloat32, ncclSum, root, comm, s));
    s.sync();
    if (rank == root) {
      CHECK(out.host() == sum);
    } else {
      CHECK(std::isnan(out.host()[0]));  // nobody writes there
    }
  }
  {
    const Array<float> both(numbers(all, rank));
    ok(ncclAllReduce(both.data, both.data, all, ncclFloat32, ncclSum, comm, s));
    s.sync();
    CHECK(both.host() == sum);
    ok(ncclAllReduce(in.data, both.data, all, ncclFloat32, ncclMax, comm, s));
    s.sync();
    CHECK(both.host() == numbers(all, root));
    ok(ncclAllReduce(in.data, both.data, all, ncclFloat32, ncclAvg, comm, s));
    s.sync();
    CHECK(both.host()[0] == sum[0] / static_cast<float>(ranks));
  }
  {
    const Array<float> out(count);
    ok(ncclReduceScatter(in.data, out.data, count, ncclFloat32, ncclSum, comm, s));
    s.sync();
    CHECK(out.host() == part(sum, r * count, count));
  }
  {
    const Array<float> out(all);
    ok(ncclAllGather(in.data, out.data, count, ncclFloat32, comm, s));
    s.sync();
    Values expected;
    for (int i = 0; i < ranks; ++i) {
      for (const float x : part(numbers(all, i), 0, count)) expected.push_back(x);
    }
    CHECK(out.host() == expected);
    const Array<float> place(numbers(all, rank));
    const Values own = part(numbers(all, rank), r * count, count);
    ok(ncclAllGather(place.data + r * count, place.data, count, ncclFloat32, comm, s));
    s.sync();
    const Values gathered = place.host();
    CHECK(part(gathered, r * count, count) == own);
    CHECK(part(gathered, 0, count) == part(numbers(all, 0), 0, count));
  }
  {
    const Array<float> out(all);
    ok(ncclAlltoAll(in.data, out.data, count, ncclFloat32, comm, s));
    s.sync();
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(part(out.host(), i * count, count) == part(numbers(all, static_cast<int>(i)), r * count, count));
    }
  }
  {
    const Array<float> out(all);
    ok(ncclGather(in.data, out.data, count, ncclFloat32, root, comm, s));
    s.sync();
    if (rank == root) CHECK(part(out.host(), 0, count) == part(numbers(all, 0), 0, count));
    const Array<float> mine(count);
    ok(ncclScatter(in.data, mine.data, count, ncclFloat32, root, comm, s));
    s.sync();
    CHECK(mine.host() == part(numbers(all, root), r * count, count));
  }
  {  // a ring of messages
    const Array<float> out(all);
    ok(ncclGroupStart());
    ok(ncclSend(in.data, all, ncclFloat32, (rank + 1) % ranks, comm, s));
    ok(ncclRecv(out.data, all, ncclFloat32, (rank + ranks - 1) % ranks, comm, s));
    ok(ncclGroupEnd());
    s.sync();
    CHECK(out.host() == numbers(all, (rank + ranks - 1) % ranks));
  }
  ok(ncclAllReduce(in.data, in.data, 0, ncclFloat32, ncclSum, comm, s));  // nothing is legal
  s.sync();
}

TEST_CASE("NCCL's operations on 1 to 8 ranks") {
  for (const Progress progress : all_progress) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      CAPTURE(ranks);
      const Fresh fresh(with(progress));
      const ncclUniqueId id = unique_id();
      on_ranks(ranks, [&](int rank) {
        Comm comm(ranks, id, rank);
        int value = -1;
        ok(ncclCommCount(comm, &value));
        CHECK(value == ranks);
        ok(ncclCommUserRank(comm, &value));
        CHECK(value == rank);
        ok(ncclCommCuDevice(comm, &value));
        CHECK(value == rank);
        check_operations(ranks, rank, comm);
        ok(ncclCommFinalize(comm));
        comm.destroy();
      });
    }
  }
}

TEST_CASE("One thread drives all devices with groups") {
  const Fresh fresh(with(Progress::normal, 4));
  ncclComm_t comms[4] = {};
  ok(ncclCommInitAll(comms, 4, nullptr));
  {
    std::vector<std::unique_ptr<Array<float>>> data;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int d = 0; d < 4; ++d) {
      ok(cudaSetDevice(d));
      data.push_back(std::make_unique<Array<float>>(Values{static_cast<float>(d)}));
      streams.push_back(std::make_unique<Stream>());
    }
    ok(ncclGroupStart());
    for (std::size_t d = 0; d < 4; ++d) {
      ok(ncclAllReduce(data[d]->data, data[d]->data, 1, ncclFloat32, ncclSum, comms[d], *streams[d]));
    }
    ok(ncclGroupEnd());
    for (int d = 0; d < 4; ++d) {
      ok(cudaSetDevice(d));
      const auto i = static_cast<std::size_t>(d);
      CHECK(data[i]->host() == Values{6});
      streams[i].reset();
      data[i].reset();
    }
  }
  for (const ncclComm_t comm : comms) ok(ncclCommDestroy(comm));
  ok(cudaSetDevice(0));
}

TEST_CASE("Sums of 16-bit data are rounded at each step, integers wrap") {
  const Fresh fresh;
  const ncclUniqueId id = unique_id();
  on_ranks(2, [&](int rank) {
    Comm comm(2, id, rank);
    const Stream s;
    const Array<__half> a(std::vector<__half>{__float2half(rank == 0 ? 2048.0F : 1.0F)});
    const Array<std::int8_t> b(std::vector<std::int8_t>{100});
    ok(ncclAllReduce(a.data, a.data, 1, ncclFloat16, ncclSum, comm, s));
    ok(ncclAllReduce(b.data, b.data, 1, ncclInt8, ncclSum, comm, s));
    s.sync();
    CHECK(__half2float(a.host()[0]) == 2048);
    CHECK(b.host()[0] == static_cast<std::int8_t>(200));
    comm.destroy();
  });
}

TEST_CASE("Several communicators: rows and columns of a 2 × 4 grid by ncclCommSplit") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    const ncclUniqueId id = unique_id();
    on_ranks(8, [&](int rank) {
      Comm world(8, id, rank);
      Comm row;
      Comm col;
      Comm some;
      ok(ncclCommSplit(world, rank / 4, rank, &row.handle, nullptr));
      ok(ncclCommSplit(world, rank % 4, -rank, &col.handle, nullptr));  // the key turns the order around
      ok(ncclCommSplit(world, rank < 3 ? 0 : NCCL_SPLIT_NOCOLOR, rank, &some.handle, nullptr));
      CHECK((some.handle != nullptr) == (rank < 3));
      int position = -1;
      ok(ncclCommUserRank(row, &position));
      CHECK(position == rank % 4);
      ok(ncclCommUserRank(col, &position));
      CHECK(position == 1 - rank / 4);
      const Stream s;
      const Array<float> a(Values{static_cast<float>(rank)});
      const Array<float> sums(2);
      ok(ncclAllReduce(a.data, sums.data, 1, ncclFloat32, ncclSum, row, s));
      ok(ncclAllReduce(a.data, sums.data + 1, 1, ncclFloat32, ncclSum, col, s));
      s.sync();
      CHECK(sums.host() == Values{rank < 4 ? 6.0F : 22.0F, static_cast<float>(2 * (rank % 4) + 4)});
      row.destroy();
      col.destroy();
      if (some.handle != nullptr) some.destroy();
      world.destroy();
    });
  }
}

}  // namespace
}  // namespace partita::cuda_emulation
