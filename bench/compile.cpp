// SPDX-License-Identifier: Apache-2.0
// What it costs to compile: the headers alone, and one user's unit (examples/quickstart.cpp), with the products in the
// unit and with those of partita::kernels. Counters: bytes of the object, and the compiler's peak memory.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/team.hpp"

namespace {

namespace fs = std::filesystem;

/// The flags with which this tree is built, one a line in a file that CMake writes.
std::vector<std::string> command_of(const fs::path& source, const fs::path& object, bool compiled_kernels) {
  std::vector<std::string> words{BENCH_COMPILER, "-std=c++20", "-O2", "-c", source.string(), "-o", object.string()};
  std::ifstream flags(BENCH_COMPILE_FLAGS);
  for (std::string line; std::getline(flags, line);) {
    if (!line.empty()) words.push_back(line);
  }
  if (compiled_kernels) words.emplace_back("-DPARTITA_COMPILED_KERNELS");
  return words;
}

/// Runs a command. Returns its peak memory in bytes, or -1 where it fails.
double run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) return -1;
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void compile(benchmark::State& state, const fs::path& source, bool compiled_kernels) {
  const fs::path object = fs::path(BENCH_SCRATCH) / (source.stem().string() + ".o");
  const std::vector<std::string> command = command_of(source, object, compiled_kernels);
  double memory = 0;
  for ([[maybe_unused]] auto unused : state) {
    const double start = bench::now();
    memory = run(command);
    state.SetIterationTime(bench::now() - start);
    if (memory < 0) {
      state.SkipWithError("the compiler fails");
      return;
    }
  }
  state.counters["object"] = static_cast<double>(fs::file_size(object));
  state.counters["memory"] = memory;
}

fs::path written(const char* name, const char* text) {
  const fs::path path = fs::path(BENCH_SCRATCH) / name;
  std::ofstream(path) << text;
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  fs::create_directories(BENCH_SCRATCH);
  const auto enroll = [](const char* name, const fs::path& source, bool compiled_kernels) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { compile(state, source, compiled_kernels); })
        ->Iterations(3)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  const fs::path nothing = written("nothing.cpp", "int main() {}\n");
  const fs::path headers = written("headers.cpp", "#include \"partita/partita.hpp\"\nint main() {}\n");
  const fs::path user = BENCH_USER_UNIT;
  enroll("nothing", nothing, false);
  enroll("partita.hpp/header-only", headers, false);
  enroll("partita.hpp/compiled", headers, true);
  enroll("quickstart.cpp/header-only", user, false);
  enroll("quickstart.cpp/compiled", user, true);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
