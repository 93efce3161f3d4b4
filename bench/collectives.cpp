// SPDX-License-Identifier: Apache-2.0
// The collectives of a communicator, as threads or, under mpirun, as processes; there MPI's own beside them. `bytes` is
// the size of one rank's whole buffer, `moved` what the busiest rank moves by the rule of Traffic.
#include <string>
#include <vector>

#include "support/host.hpp"

namespace {

using namespace bench;

/// The buffers of one rank: a row of n floats, cut evenly.
struct Buffers {
  Buffers(index_t n, int ranks) : in(static_cast<std::size_t>(n), 1.0F), out(static_cast<std::size_t>(n)) {
    for (int r = 0; r < ranks; ++r) blocks.push_back({{0, 1}, {n / ranks * r, n / ranks * (r + 1)}});
    part = n / ranks;
  }
  [[nodiscard]] View<const float> whole_in() const { return {in.data(), 1, size(), size()}; }
  [[nodiscard]] View<float> whole_out() { return {out.data(), 1, size(), size()}; }
  [[nodiscard]] View<const float> part_in() const { return {in.data(), 1, part, part}; }
  [[nodiscard]] View<float> part_out() { return {out.data(), 1, part, part}; }
  [[nodiscard]] index_t size() const { return static_cast<index_t>(in.size()); }

  std::vector<float> in, out;
  std::vector<Block> blocks;
  index_t part = 0;
};

template <class Comm>
struct Collective {
  const char* name;
  void (*run)(partita::CountingComm<Comm>&, Buffers&);
};

template <class Comm>
constexpr Collective<Comm> ours[] = {
    {"broadcast", [](auto& comm, Buffers& b) { comm.broadcast(b.whole_out(), 0).wait(); }},
    {"panel",
     [](auto& comm, Buffers& b) {
       auto panel = comm.template broadcast_panel<float>(b.whole_in(), b.whole_out(), 0);
       panel.wait();
       benchmark::DoNotOptimize(panel.view().data);
       panel.release();
       comm.drain();
     }},
    {"reduce",
     [](auto& comm, Buffers& b) {
       comm.template reduce<float>(b.whole_in(), b.whole_out(), 0, partita::Into::overwrite).wait();
     }},
    {"all_reduce", [](auto& comm, Buffers& b) { comm.template all_reduce<float>(b.whole_in(), b.whole_out()).wait(); }},
    {"reduce_scatter",
     [](auto& comm, Buffers& b) { comm.template reduce_scatter<float>(b.whole_in(), b.part_out(), b.blocks).wait(); }},
    {"all_gather",
     [](auto& comm, Buffers& b) { comm.template all_gather<float>(b.part_in(), b.whole_out(), b.blocks).wait(); }},
    {"barrier", [](auto& comm, Buffers&) { comm.barrier(); }},
};

template <class Comm>
void enroll_ours(Host<Comm>& host, index_t bytes) {
  for (const Collective<Comm>& collective : ours<Comm>) {
    for (const int ranks : host.rank_counts()) {
      const int iterations = bytes > (1 << 20) ? 20 : 200;
      const auto run = collective.run;
      enroll_benchmark(host, std::string(collective.name) + "/" + std::to_string(bytes), ranks, iterations,
                       [bytes, run](Place<Comm>& place) {
                         Buffers buffers(bytes / 4, place.context.size());
                         const auto call = [&] { run(place.context.comm(), buffers); };
                         const double seconds = place.time(call);
                         place.counter("GB/s", static_cast<double>(bytes) / seconds / 1e9);
                         place.counter("moved", static_cast<double>(place.moved(call).bytes));
                       });
    }
  }
}

#if BENCH_MPI
struct MpiCall {
  const char* name;
  void (*run)(Buffers&);
};
constexpr MpiCall of_mpi[] = {
    {"broadcast",
     [](Buffers& b) { MPI_Bcast(b.out.data(), static_cast<int>(b.size()), MPI_FLOAT, 0, MPI_COMM_WORLD); }},
    {"reduce",
     [](Buffers& b) {
       MPI_Reduce(b.in.data(), b.out.data(), static_cast<int>(b.size()), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
     }},
    {"all_reduce",
     [](Buffers& b) {
       MPI_Allreduce(b.in.data(), b.out.data(), static_cast<int>(b.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"reduce_scatter",
     [](Buffers& b) {
       MPI_Reduce_scatter_block(b.in.data(), b.out.data(), static_cast<int>(b.part), MPI_FLOAT, MPI_SUM,
                                MPI_COMM_WORLD);
     }},
    {"all_gather",
     [](Buffers& b) {
       const int part = static_cast<int>(b.part);
       MPI_Allgather(b.in.data(), part, MPI_FLOAT, b.out.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
     }},
    {"barrier", [](Buffers&) { MPI_Barrier(MPI_COMM_WORLD); }},
};

void enroll_mpi(Host<partita::MpiComm>& host, index_t bytes) {
  for (const MpiCall& call : of_mpi) {
    for (const int ranks : host.rank_counts()) {
      const auto run = call.run;
      enroll_benchmark(host, std::string("MPI's own ") + call.name + "/" + std::to_string(bytes), ranks,
                       bytes > (1 << 20) ? 20 : 200, [bytes, run](Place<partita::MpiComm>& place) {
                         Buffers buffers(bytes / 4, place.context.size());
                         const double seconds = place.time([&] { run(buffers); });
                         place.counter("GB/s", static_cast<double>(bytes) / seconds / 1e9);
                       });
    }
  }
}
#endif

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks(argc, argv, []<class Comm>(Host<Comm>& host) {
    for (const index_t bytes : {index_t{1} << 10, index_t{64} << 10, index_t{1} << 20, index_t{16} << 20}) {
      enroll_ours(host, bytes);
#if BENCH_MPI
      if constexpr (std::is_same_v<Comm, partita::MpiComm>) enroll_mpi(host, bytes);
#endif
    }
  });
}
