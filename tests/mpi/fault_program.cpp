// SPDX-License-Identifier: Apache-2.0
// A program that fails as it is told: fault_program HOW RANK. All ranks multiply without end; RANK says on stdout who
// it is, and then throws, exits, aborts, stops answering, or is killed from outside. With early_ before HOW it does so
// before a grid is made; an `absent` one makes no communicator.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "partita/backend/eigen.hpp"
#include "partita/comm/mpi.hpp"
#include "partita/matmul/matmul.hpp"
#include "partita/partition/policies.hpp"

using namespace partita;

namespace {

using MpiContext = Context<EigenBackend, MpiComm>;

/// A destructor that runs while the exception unwinds; in it nothing collective may be called.
struct Witness {
  MpiContext* context;
  ~Witness() { std::fprintf(stderr, "rank %d unwinds\n", context->rank()); }
};

void fail(std::string how, MpiContext& context) {
  if (how.starts_with("early_")) how.erase(0, 6);
  std::printf("rank %d has pid %ld\n", context.rank(), static_cast<long>(getpid()));
  std::fflush(stdout);
  if (how == "throw") throw std::runtime_error("thrown on purpose");
  if (how == "exit") std::exit(3);
  if (how == "quit") std::exit(0);
  if (how == "_exit") _exit(4);
  if (how == "abort") std::abort();
  if (how == "terminate") std::terminate();
  if (how == "comm_abort") context.comm().abort("abort() was called");
  if (how == "kill") std::raise(SIGKILL);
  if (how == "segv") std::raise(SIGSEGV);
  if (how == "stop") std::this_thread::sleep_for(std::chrono::seconds(600));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "throw";
  const int victim = argc > 2 ? std::atoi(argv[2]) : 1;
  MpiOptions options;
  options.arena = std::size_t{16} << 20;
  if (how == "stop" || how == "leave" || how == "early_stop" || how == "absent")
    options.deadline = std::chrono::seconds(2);
  const MpiRuntime runtime(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (how == "absent" && rank == victim) std::this_thread::sleep_for(std::chrono::seconds(600));
  run_mpi(MPI_COMM_WORLD, options, [&](MpiComm& comm) {
    MpiContext context(std::move(comm));
    const Witness witness{&context};
    if (how.starts_with("early_") && rank == victim) fail(how, context);
    const auto grid = make_grid<Summa2D<>>(context, context.size() / 2, 2);
    const auto a = random_uniform<float, Summa2D<>>(grid, {40, 40}, 1);
    const auto b = random_uniform<float, Summa2D<>>(grid, {40, 40}, 2);
    for (int i = 0; how == "work" ? i < 200 : true; ++i) {
      const auto c = matmul(a, b);
      if (i == 50 && how != "wait" && context.rank() == victim) {
        if (how == "leave") return;
        fail(how, context);
      }
      if (how == "wait" && i == 50) {  // for somebody to kill a rank
        std::printf("rank %d has pid %ld\n", context.rank(), static_cast<long>(getpid()));
        std::fflush(stdout);
      }
    }
  });
}
