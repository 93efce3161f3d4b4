// SPDX-License-Identifier: Apache-2.0
// The command line of train_digits.
#pragma once

#include <string>
#include <vector>

#include "../matmul_files/grid_options.hpp"
#include "digits.hpp"
#include "settings.hpp"

#include <CLI/CLI.hpp>

#ifndef TRAIN_DIGITS_DATA
#define TRAIN_DIGITS_DATA "examples/data"
#endif

namespace train_digits {

using matmul_files::GridKind;
using matmul_files::GridOptions;
using matmul_files::UsageError;

struct Options {
  Settings settings;
  std::string comm = "threads";
  std::string data = TRAIN_DIGITS_DATA;
  std::string csv;
  std::string picture;
  bool quiet = false;
};

struct Policy {
  const char* name;
  GridKind grid;
};
inline const Policy policies[] = {
    {"serial", GridKind::line},       {"column-row", GridKind::line}, {"sequence", GridKind::line},
    {"summa2d", GridKind::rectangle}, {"summa25d", GridKind::layers},
};

inline constexpr const char* about =
    R"(Trains a small vision transformer on the UCI handwritten digits, and tells the accuracy on a held-out fifth.

A policy says how weights and activations lie on the ranks. The result is the same to rounding:
  serial      one rank
  column-row  weights cut by columns, then by rows (Megatron)           --ranks P          (4)
  sequence    the same, and the stream's tokens cut over the ranks      --ranks P          (4)
  summa2d     both cut both ways                                        --rows R --cols C  (2 x 2), or --ranks P
  summa25d    the same in each of D layers of the grid, on other images --q Q --d D        (2, 2), or --ranks P
Ranks are threads; with --comm mpi, in a build with MPI, the processes that mpirun has started, all of which are used;
with --comm nccl, in a build with CUDA, threads with a GPU each.
Exit status: 0; 2 for wrong usage; 1 for any other error, told in one line.)";

/// The extents that the options ask for, where --ranks alone gives summa25d the largest layers that fit.
inline std::vector<int> extents_of(const std::string& policy, GridOptions given) {
  if (policy == "serial") {
    const int most = std::max({given.ranks, given.rows * given.cols, given.q * given.d, given.processes});
    if (most > 1) {
      throw UsageError("policy serial has one rank, not " + std::to_string(most) +
                       ": leave the options of the grid out, or choose another policy");
    }
    return {1};
  }
  GridKind kind = GridKind::line;
  for (const Policy& entry : policies) {
    if (policy == entry.name) kind = entry.grid;
  }
  if (kind == GridKind::layers && given.q == 0 && given.d == 0 && given.rows == 0 && given.cols == 0) {
    const int ranks = given.ranks != 0 ? given.ranks : given.processes;
    for (int q = 1; q * q <= ranks; ++q) {
      if (ranks % (q * q) != 0) continue;
      given.q = q;
      given.d = ranks / (q * q);
    }
  }
  return matmul_files::grid_extents(policy, kind, given);
}

/// Reads the command line, for ranks that are threads or so many processes. Throws CLI::ParseError and UsageError.
inline Options parse_options(CLI::App& app, int argc, char** argv, int processes = 0) {
  Options options;
  Settings& s = options.settings;
  GridOptions grid;
  grid.processes = processes;
  std::vector<std::string> names;
  for (const Policy& entry : policies) names.emplace_back(entry.name);
  const CLI::Range count(1, 1024);
  double epochs = 0;

  app.add_option("--policy", s.policy, "How the model lies on the ranks, serial unless given")
      ->check(CLI::IsMember(names));
  app.add_option("--comm", options.comm, "What ranks are, threads unless given")
      ->check(CLI::IsMember(std::vector<std::string>{"threads", "mpi", "nccl"}))
      ->type_name("threads|mpi|nccl");
  app.add_option("--ranks", grid.ranks, "Number of ranks")->check(count)->type_name("P");
  app.add_option("--rows", grid.rows, "Rows of the grid")->check(count)->type_name("R");
  app.add_option("--cols", grid.cols, "Columns of the grid")->check(count)->type_name("C");
  app.add_option("--q", grid.q, "Rows and columns of each layer of the grid")->check(count)->type_name("Q");
  app.add_option("--d", grid.d, "Layers of the grid")->check(count)->type_name("D");
  app.add_option("--type", s.type, "Of weights and activations, float unless given")
      ->check(CLI::IsMember(std::vector<std::string>{"float", "double", "bf16"}))
      ->type_name("float|double|bf16");
  auto* const by_steps =
      app.add_option("--steps", s.steps, "Steps of the training, " + std::to_string(s.steps) + " unless given")
          ->check(CLI::Range(1, 1000000))
          ->type_name("N");
  app.add_option("--epochs", epochs, "Instead of --steps: passes over the training images")
      ->check(CLI::Range(0.01, 10000.0))
      ->excludes(by_steps)
      ->type_name("E");
  app.add_option("--batch", s.batch, "Images in a step, " + std::to_string(s.batch) + " unless given")
      ->check(CLI::Range(1, 1000))
      ->type_name("B");
  app.add_option("--learning-rate", s.learning_rate, "Highest learning rate")
      ->check(CLI::Range(1e-9, 10.0))
      ->type_name("X");
  app.add_option("--weight-decay", s.weight_decay, "Of matrices")->check(CLI::Range(0.0, 10.0))->type_name("X");
  app.add_option("--label-smoothing", s.label_smoothing, "Share of every target that all digits get alike")
      ->check(CLI::Range(0.0, 0.99))
      ->type_name("X");
  app.add_option("--shift", s.shift, "Pixels by which training images are moved at random")
      ->check(CLI::Range(0, 4))
      ->type_name("N");
  app.add_option("--seed", s.seed, "Of weights, batches and shifts")->type_name("N");
  app.add_option("--data", options.data, "Directory of digits.npy and digits_labels.npy")->type_name("DIRECTORY");
  app.add_option("--csv", options.csv, "Where the learning curve goes as a table")->type_name("FILE");
  app.add_option("--picture", options.picture, "Where it goes as a picture (SVG)")->type_name("FILE");
  app.add_flag("--quiet", options.quiet, "No progress on the standard error");
  app.parse(argc, argv);

  if (epochs > 0) {
    constexpr double training_images = 1438;
    s.steps = std::max<index_t>(1, static_cast<index_t>(epochs * training_images / static_cast<double>(s.batch)));
  }
  if (s.type == "bf16" && options.comm == "mpi") {
    throw UsageError("--type bf16 is for ranks that are threads: give --type float or double with --comm mpi");
  }
  if (s.type == "double" && options.comm == "nccl") {
    throw UsageError("--type double is for ranks without a GPU: give --type float or bf16 with --comm nccl");
  }
  s.extents = extents_of(s.policy, grid);
  return options;
}

}  // namespace train_digits
