// SPDX-License-Identifier: Apache-2.0
// train_digits: trains a vision transformer on the handwritten digits under a policy of tensor parallelism.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "matmul_files/launcher.hpp"
#include "partita/partita.hpp"
#include "train_digits/curve.hpp"
#include "train_digits/dispatch.hpp"
#include "train_digits/options.hpp"
#include "train_digits/progress.hpp"
#if TRAIN_DIGITS_MPI
#include "partita/comm/mpi.hpp"
#endif
#if TRAIN_DIGITS_NCCL
#include "train_digits/devices.hpp"
#endif

namespace {

using namespace train_digits;

constexpr auto deadline = std::chrono::hours(24);  // a rank may wait long for the computation of another

/// An error in one line.
int fail(int status, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cerr << "train_digits: " << text << std::endl;
  return status;
}
/// Help, or an error.
int tell(int status, const std::string& text) {
  if (status != 0) return fail(status, text);
  std::cout << text;
  return std::cout.flush() ? 0 : 1;
}

/// What rank 0 does beside training: progress, the curve, and the files.
class Report {
 public:
  explicit Report(const Options& options) : options_(options), csv_(options.csv), picture_(options.picture) {
    if (!options.quiet) progress_ = std::make_unique<Progress>(options.settings.steps, options.settings.batch);
  }

  void add(const Point& point) {
    curve_.push_back(point);
    if (progress_) progress_->show(point);
  }

  void finish(const Result& result, const std::string& rank_kind) {
    progress_.reset();
    const Settings& s = options_.settings;
    std::string grid;
    for (const int extent : s.extents) grid += (grid.empty() ? "" : "x") + std::to_string(extent);
    char text[240];
    std::snprintf(text, sizeof text, "%s on %s %s%s, %s: %lld steps of %lld images in %.1f s, %lld parameters",
                  s.policy.c_str(), grid.c_str(), rank_kind.c_str(), s.ranks() == 1 ? "" : "s", s.type.c_str(),
                  static_cast<long long>(s.steps), static_cast<long long>(s.batch), result.seconds,
                  static_cast<long long>(result.parameters));
    csv_.write(csv_text(curve_));
    picture_.write(Picture(curve_, text).text());
    const auto right = static_cast<long long>(result.accuracy * static_cast<double>(result.held_out) + 0.5);
    std::printf("%s\nlast loss %.6f, accuracy on the held-out images: %.2f %% (%lld of %lld)\n", text,
                curve_.back().loss, 100 * result.accuracy, right, static_cast<long long>(result.held_out));
    if (std::fflush(stdout) != 0) throw FileError("FileError: the report cannot be written to the standard output");
  }

 private:
  const Options& options_;
  OutputFile csv_;
  OutputFile picture_;
  std::unique_ptr<Progress> progress_;
  std::vector<Point> curve_;
};

/// Trains, and on rank 0 reports.
template <class Ctx>
void run_rank(Ctx& context, const Options& options, const Digits& digits, Report* report, const char* rank_kind) {
  const Watch watch = report == nullptr ? Watch() : Watch([report](const Point& point) { report->add(point); });
  const Result result = train_policy(context, options.settings, digits, watch);
  std::string objection;
  try {
    if (report != nullptr) report->finish(result, rank_kind);
  } catch (const std::exception& error) {
    objection = error.what();
  }
  detail::agree_or_throw<FileError>(context.comm(), objection);
}

/// Calls work() and tells what it throws by report(status, text); a request for help is status 0.
template <class Work, class Tell>
void guard(CLI::App& app, const Work& work, const Tell& report) {
  try {
    work();
  } catch (const CLI::CallForHelp&) {
    report(0, app.help());
  } catch (const CLI::ParseError& error) {
    report(2, std::string(error.what()) + " (train_digits --help tells the usage)");
  } catch (const UsageError& error) {
    report(2, error.what());
  } catch (const std::exception& error) {
    report(1, error.what());
  }
}

#if TRAIN_DIGITS_MPI
constexpr const char* remedy_under_mpirun = "give --comm mpi";
#else
constexpr const char* remedy_under_mpirun = "build with -DPARTITA_MPI=ON and give --comm mpi";
#endif

/// Trains on ranks that are threads, each with a device where these are asked for.
void train_on_threads(const Options& options, const Digits& digits, Report& report) {
  LaunchOptions launch;
  launch.deadline = deadline;
  const int ranks = options.settings.ranks();
  const auto run = [&](auto& context, const char* rank_kind) {
    run_rank(context, options, digits, context.rank() == 0 ? &report : nullptr, rank_kind);
  };
  if (options.comm == "nccl") {
#if TRAIN_DIGITS_NCCL
    launch_devices(ranks, launch, [&](NcclComm comm) {
      DeviceContext context(std::move(comm));
      run(context, "GPU");
    });
#else
    throw UsageError("--comm nccl needs a train_digits that is built with CUDA: configure with -DPARTITA_CUDA=ON");
#endif
  } else {
    launch_threads(ranks, launch, [&](ThreadComm comm) {
      ThreadContext context(std::move(comm));
      run(context, "thread");
    });
  }
}

/// Where mpirun has started several processes, all but the first are silent, and end with status 0: mpirun would stop
/// the first one, before it tells the error, when another ends with a status of its own.
int run_on_threads(int argc, char** argv) {
  CLI::App app(about, "train_digits");
  int status = 0;
  const auto work = [&] {
    const Options options = parse_options(app, argc, argv);
    const std::string asked = "ranks are to be threads (--comm threads or nccl, also where no --comm is given)";
    const std::string refusal = matmul_files::threads_refused(asked, remedy_under_mpirun);
    if (!refusal.empty()) throw UsageError(refusal);
    const Digits digits(options.data);
    Report report(options);
    train_on_threads(options, digits, report);
  };
  guard(app, work, [&](int code, const std::string& text) {
    if (matmul_files::launched_processes() <= 1 || matmul_files::launched_rank() == 0) status = tell(code, text);
  });
  return status;
}

#if TRAIN_DIGITS_MPI
/// Every process reads the command line and the data; what one of them objects to, rank 0 tells.
int run_on_processes(int argc, char** argv) {
  int status = 1;
  MpiOptions mpi;
  mpi.deadline = deadline;
  launch_mpi(argc, argv, mpi, [&](MpiComm comm) {
    Context<EigenBackend, MpiComm> context(std::move(comm));
    CLI::App app(about, "train_digits");
    std::optional<Options> options;
    std::optional<Digits> digits;
    std::optional<Report> report;
    int own_status = -1;
    std::string own_text;
    const auto prepare = [&] {
      options = parse_options(app, argc, argv, context.size());
      digits.emplace(options->data);
      if (context.rank() == 0) report.emplace(*options);
    };
    guard(app, prepare, [&](int code, const std::string& text) {
      own_status = code;
      own_text = text;
    });
    status = static_cast<int>(context.comm().agree(own_status));
    if (status >= 0) {
      const std::string text = detail::agree_on_objection(context.comm(), own_status == status ? own_text : "");
      if (context.rank() == 0) status = tell(status, text);
      return;
    }
    status = 0;
    try {
      run_rank(context, *options, *digits, report ? &*report : nullptr, "process");
    } catch (const FileError& error) {  // the same on all ranks
      status = context.rank() == 0 ? fail(1, error.what()) : 1;
    }
  });
  return status;
}
#else
int run_on_processes(int /*argc*/, char** /*argv*/) {
  return fail(2, "--comm mpi needs a train_digits that is built with MPI: configure with -DPARTITA_MPI=ON");
}
#endif

/// Whether the command line says --comm mpi: MPI begins before the rest is read, so that one rank tells an error.
bool asks_for_mpi(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool named = argument == "--comm" && i + 1 < argc && argv[i + 1] == std::string("mpi");
    if (named || argument == "--comm=mpi") return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return asks_for_mpi(argc, argv) ? run_on_processes(argc, argv) : run_on_threads(argc, argv);
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
