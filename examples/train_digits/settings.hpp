// SPDX-License-Identifier: Apache-2.0
// What a training run is told, and what it tells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "partita/base/config.hpp"

namespace train_digits {

using partita::index_t;

struct Settings {
  std::string policy = "serial";
  std::vector<int> extents{1};  // of the policy's grid
  std::string type = "float";
  index_t batch = 64;
  index_t steps = 1500;
  double learning_rate = 2e-3;
  double weight_decay = 0.05;
  double label_smoothing = 0.1;
  int shift = 1;  // pixels by which training images are moved at random
  std::uint64_t seed = 1;

  [[nodiscard]] int ranks() const {
    int product = 1;
    for (const int extent : extents) product *= extent;
    return product;
  }
};

/// One point of the learning curve. accuracy: on the held-out images after this step; below 0 where it was not taken.
struct Point {
  index_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double accuracy = -1;
  double seconds = 0;
};

struct Result {
  double accuracy = 0;
  index_t held_out = 0;
  index_t parameters = 0;
  double seconds = 0;
};

/// Called on rank 0 after each step.
using Watch = std::function<void(const Point&)>;

}  // namespace train_digits
