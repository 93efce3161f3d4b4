// SPDX-License-Identifier: Apache-2.0
// partita-matmul: multiplies two .npy files under a partition that is chosen on the command line.
#include <algorithm>
#include <complex>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>

#include "matmul_files/bound.hpp"
#include "matmul_files/launcher.hpp"
#include "matmul_files/options.hpp"
#include "matmul_files/product.hpp"
#if MATMUL_FILES_MPI
#include "matmul_files/processes.hpp"
#endif
#if MATMUL_FILES_NCCL
#include "matmul_files/devices.hpp"
#endif

namespace {

using namespace matmul_files;

/// The files of a job, opened to learn types and shapes; the reference of --verify reads them too.
struct Files {
  explicit Files(const Job& job) : a(job.a), b(job.b) {
    if (!job.c0.empty()) c0.emplace(job.c0);
  }
  NpyFile a, b;
  std::optional<NpyFile> c0;
};

bool is_complex(NpyType type) { return type == NpyType::complex64 || type == NpyType::complex128; }
bool is_single(NpyType type) {
  return type == NpyType::float16 || type == NpyType::float32 || type == NpyType::complex64;
}

std::string describe(const NpyFile& file, bool transposed) {
  return file.path() + " (" + to_string(file.shape()) + " " + std::string(detail::npy_info(file.header().dtype).name) +
         (transposed ? ", transposed)" : ")");
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  return text;
}

std::string time_text(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return "minimum " + milliseconds(seconds[0]) + ", median " + milliseconds(median) + " of " + std::to_string(n);
}

void print(const Report& report, const Options& options) {
  std::cout << "strategy  " << report.strategy << "\n"
            << "grid      " << report.grid << ", ranks " << report.ranks.size() << "\n"
            << "schedule  " << report.schedule << " on rank 0\n";
  if (options.explain) std::cout << report.steps;
  std::cout << "time      " << time_text(report.seconds) << "\n"
            << "moved     messages and bytes of each rank: counted = predicted\n";
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const auto& [counted, predicted] = report.ranks[rank];
    std::cout << "  rank " << rank << "  " << counted.messages << " = " << predicted.messages << "  " << counted.bytes
              << " = " << predicted.bytes << "\n";
  }
}

/// Computes with scalar T, reports on rank 0, and writes the result, if all is well.
template <class T, class R>
void run_with(const R& rank, const Options& options, const Files& files) {
  const Job& job = options.job;
  auto& context = rank.host;
  auto& comm = context.comm().base();
  const auto verify = [&](Block block, View<const T> c) {
    double error = 0;
    std::string objection;
    try {
      const Source a{&files.a, job.transpose_a};
      const Source b{&files.b, job.transpose_b};
      const Source c0{files.c0 ? &*files.c0 : nullptr};
      const index_t steps = a.shape().cols + context.size() + 4;
      const Reference<T> reference(a, b, c0, factor<T>(job.alpha), factor<T>(job.beta), steps);
      error = reference.largest_error(block, c);
    } catch (const std::exception& failure) {  // agreed below: peers must not go on into a collective alone
      objection = failure.what();
    }
    detail::agree_or_throw<JobError>(comm, objection);
    const View<double> all(&error, 1, 1, 1);
    comm.all_reduce(all, all, ReduceOp::max).wait();
    return error;
  };
  const auto check = [&](const Report& report, Block block, View<const T> c) {
    const double error = options.verify ? verify(block, c) : 0;
    std::string objection;
    if (context.rank() == 0) {
      print(report, options);
      if (options.verify) std::cout << "verified  largest error / bound " << error << "\n";
      if (!std::cout.flush()) objection = "the report cannot be written to the standard output";
    }
    detail::agree_or_throw<JobError>(comm, objection);
    if (error > 1) throw JobError("verification failed: an error is " + std::to_string(error) + " times its bound");
  };
  multiply_files<T>(rank, find_policy(options.policy, job.transpose_a, job.transpose_b), options.extents, job, check);
}

/// What one rank does.
template <class R>
void run_rank(const R& rank, const Options& options, const Files& files) {
  const NpyType a = files.a.header().dtype;
  const NpyType b = files.b.header().dtype;
  const bool complex = is_complex(a) || is_complex(b);
  const bool single = is_single(a) && is_single(b);
  if (rank.host.rank() == 0) {
    std::cout << "product   " << describe(files.a, options.job.transpose_a) << " x "
              << describe(files.b, options.job.transpose_b) << " in "
              << (complex ? (single ? "complex64" : "complex128") : (single ? "float32" : "float64")) << "\n";
  }
  if (complex) {
    single ? run_with<std::complex<float>>(rank, options, files) : run_with<std::complex<double>>(rank, options, files);
  } else {
    single ? run_with<float>(rank, options, files) : run_with<double>(rank, options, files);
  }
  if (rank.host.rank() == 0) std::cout << "written   " << options.job.output << std::endl;
}

/// An error in one line.
int fail(int status, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cerr << "partita-matmul: " << text << std::endl;
  return status;
}

/// Calls work() and tells what it throws by report(status, text); a request for help is status 0.
template <class Work, class Tell>
void guard(CLI::App& app, const Work& work, const Tell& report) {
  try {
    work();
  } catch (const CLI::CallForHelp&) {
    report(0, app.help());
  } catch (const CLI::ParseError& error) {
    report(2, std::string(error.what()) + " (partita-matmul --help tells the usage)");
  } catch (const UsageError& error) {
    report(2, error.what());
  } catch (const std::exception& error) {
    report(1, error.what());
  }
}

/// Help, or an error.
int tell(int status, const std::string& text) {
  if (status != 0) return fail(status, text);
  std::cout << text;
  return std::cout.flush() ? 0 : 1;
}

#if MATMUL_FILES_MPI
constexpr const char* remedy_under_mpirun = "give --comm mpi";
#else
constexpr const char* remedy_under_mpirun = "build with -DPARTITA_MPI=ON and give --comm mpi";
#endif

#if MATMUL_FILES_NCCL
void run_on_devices(int ranks, const Options& options, const Files& files) {
  on_devices(ranks, [&](const DeviceRank& rank) { run_rank(rank, options, files); });
}
#else
void run_on_devices(int /*ranks*/, const Options& /*options*/, const Files& /*files*/) {
  throw UsageError("--comm nccl needs a partita-matmul that is built with CUDA: configure with -DPARTITA_CUDA=ON");
}
#endif

/// Where mpirun has started several processes, all but the first are silent, and end with status 0: mpirun would stop
/// the first one, before it tells the error, when another ends with a status of its own.
int run_on_threads(int argc, char** argv) {
  CLI::App app(about, "partita-matmul");
  int status = 0;
  const auto work = [&] {
    const Options options = parse_options(app, argc, argv);
    const std::string asked = "ranks are to be threads (--comm threads or nccl, also where no --comm is given)";
    const std::string refusal = threads_refused(asked, remedy_under_mpirun);
    if (!refusal.empty()) throw UsageError(refusal);
    const Files files(options.job);
    int ranks = 1;
    for (const int extent : options.extents) ranks *= extent;
    if (options.comm == "nccl") {
      run_on_devices(ranks, options, files);
    } else {
      on_threads(ranks, [&](RankContext<ThreadComm>& context) {
        run_rank(HostRank<ThreadComm>{context, context}, options, files);
      });
    }
  };
  guard(app, work, [&](int code, const std::string& text) {
    if (launched_processes() <= 1 || launched_rank() == 0) status = tell(code, text);
  });
  return status;
}

#if MATMUL_FILES_MPI
/// Every process reads the command line and opens the files; what one of them objects to, rank 0 tells.
int run_on_processes(int argc, char** argv) {
  return on_processes(argc, argv, fail, [&](RankContext<MpiComm>& context) {
    CLI::App app(about, "partita-matmul");
    std::optional<Options> options;
    std::optional<Files> files;
    int own_status = -1;
    std::string own_text;
    const auto prepare = [&] {
      options = parse_options(app, argc, argv, context.size());
      files.emplace(options->job);
    };
    guard(app, prepare, [&](int code, const std::string& text) {
      own_status = code;
      own_text = text;
    });
    const index_t status = context.comm().agree(own_status);
    if (status >= 0) {
      const std::string text = detail::agree_on_objection(context.comm(), own_status == status ? own_text : "");
      return context.rank() == 0 ? tell(static_cast<int>(status), text) : static_cast<int>(status);
    }
    run_rank(HostRank<MpiComm>{context, context}, *options, *files);
    return 0;
  });
}
#else
int run_on_processes(int /*argc*/, char** /*argv*/) {
  return fail(2, "--comm mpi needs a partita-matmul that is built with MPI: configure with -DPARTITA_MPI=ON");
}
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    return asks_for_mpi(argc, argv) ? run_on_processes(argc, argv) : run_on_threads(argc, argv);
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
