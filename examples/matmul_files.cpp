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
#include "matmul_files/options.hpp"
#include "matmul_files/product.hpp"

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

void flush_report() {
  if (!std::cout.flush()) throw Error("the report cannot be written to the standard output");
}

/// Computes with scalar T, reports, and writes the result, if all is well.
template <class T>
void run(const Options& options, const Files& files) {
  const Job& job = options.job;
  const auto check = [&](RankContext& context, const Report& report, Block block, View<const T> c) {
    double error = 0;
    if (options.verify) {
      const Source a{&files.a, job.transpose_a};
      const Source b{&files.b, job.transpose_b};
      const Source c0{files.c0 ? &*files.c0 : nullptr};
      const index_t steps = a.shape().cols + context.size() + 4;
      const Reference<T> reference(a, b, c0, factor<T>(job.alpha), factor<T>(job.beta), steps);
      error = reference.largest_error(block, c);
      const View<double> all(&error, 1, 1, 1);
      context.comm().all_reduce(all, all, ReduceOp::max).wait();
    }
    if (context.rank() == 0) {
      print(report, options);
      if (options.verify) std::cout << "verified  largest error / bound " << error << "\n";
      flush_report();
    }
    context.comm().barrier();
    if (error > 1) throw Error("verification failed: an error is " + std::to_string(error) + " times its bound");
  };
  multiply_files<T>(find_policy(options.policy, job.transpose_a, job.transpose_b), options.extents, job, check);
}

void run(const Options& options) {
  const Files files(options.job);
  const NpyType a = files.a.header().dtype;
  const NpyType b = files.b.header().dtype;
  const bool complex = is_complex(a) || is_complex(b);
  const bool single = is_single(a) && is_single(b);
  std::cout << "product   " << describe(files.a, options.job.transpose_a) << " x "
            << describe(files.b, options.job.transpose_b) << " in "
            << (complex ? (single ? "complex64" : "complex128") : (single ? "float32" : "float64")) << "\n";
  if (complex) {
    single ? run<std::complex<float>>(options, files) : run<std::complex<double>>(options, files);
  } else {
    single ? run<float>(options, files) : run<double>(options, files);
  }
  std::cout << "written   " << options.job.output << "\n";
}

/// An error in one line.
int fail(int status, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cerr << "partita-matmul: " << text << std::endl;
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(about, "partita-matmul");
  try {
    run(parse_options(app, argc, argv));
    return 0;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::cout.flush() ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    return fail(2, std::string(error.what()) + " (partita-matmul --help tells the usage)");
  } catch (const UsageError& error) {
    return fail(2, error.what());
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
