// SPDX-License-Identifier: Apache-2.0
// The handwritten digits: held-out fifth, and batches that are the same whatever the ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "partita/tensor/gather.hpp"
#include "partita/tensor/npy_file.hpp"
#include "partita/tensor/random.hpp"

namespace train_digits {

using namespace partita;

inline constexpr index_t image_side = 8;
inline constexpr index_t pixels = image_side * image_side;
inline constexpr index_t classes = 10;

/// Indices of images by a random key, which is a function of the seed and of the index alone.
inline void shuffle(std::vector<index_t>& images, std::uint64_t seed, index_t stream) {
  std::sort(images.begin(), images.end(), [=](index_t a, index_t b) {
    const std::uint64_t x = random_bits(seed, stream, a);
    const std::uint64_t y = random_bits(seed, stream, b);
    return x != y ? x < y : a < b;
  });
}

/// 1797 images of 8×8 pixels, 0 to 16, and the digits that they show; every rank reads all of them (115 KB).
class Digits {
 public:
  /// Throws FileError, or ShapeError where the files are not the digits.
  explicit Digits(const std::string& directory) {
    const NpyFile images(directory + "/digits.npy");
    const NpyFile labels(directory + "/digits_labels.npy");
    if (images.shape().cols != pixels || labels.shape() != Shape{images.shape().rows, 1}) {
      throw ShapeError("ShapeError: " + directory + " holds images of " + to_string(images.shape()) +
                       " and labels of " + to_string(labels.shape()) + "; needed: N x 64 and N x 1");
    }
    images_ = Matrix<float>(images.shape());
    labels_ = Matrix<std::int64_t>(labels.shape());
    images.read({{0, images.shape().rows}, {0, pixels}}, images_.view());
    labels.read({{0, labels.shape().rows}, {0, 1}}, labels_.view());
    split();
  }

  /// The images to train with, and the fifth of every class that is held out: always the same ones.
  [[nodiscard]] const std::vector<index_t>& training() const noexcept { return training_; }
  [[nodiscard]] const std::vector<index_t>& held_out() const noexcept { return held_out_; }

  [[nodiscard]] std::int64_t label(index_t image) const { return labels_(image, 0); }
  /// The pixel at (row, col) of an image that is moved by (down, right), in [-1, 1]; what moves in is empty.
  [[nodiscard]] double pixel(index_t image, index_t row, index_t col, index_t down = 0, index_t right = 0) const {
    const index_t r = row - down;
    const index_t c = col - right;
    const bool inside = r >= 0 && r < image_side && c >= 0 && c < image_side;
    return (inside ? static_cast<double>(images_(image, r * image_side + c)) : 0.0) / 8 - 1;
  }

 private:
  void split() {
    constexpr std::uint64_t split_seed = 1998;
    for (std::int64_t digit = 0; digit < classes; ++digit) {
      std::vector<index_t> images;
      for (index_t i = 0; i < labels_.shape.rows; ++i) {
        if (label(i) == digit) images.push_back(i);
      }
      shuffle(images, split_seed, digit);
      const auto held = static_cast<std::ptrdiff_t>((images.size() + 2) / 5);
      held_out_.insert(held_out_.end(), images.begin(), images.begin() + held);
      training_.insert(training_.end(), images.begin() + held, images.end());
    }
  }

  Matrix<float> images_;
  Matrix<std::int64_t> labels_;
  std::vector<index_t> training_;
  std::vector<index_t> held_out_;
};

/// An image of a batch, and by how much it is moved.
struct Sample {
  index_t image = 0;
  index_t down = 0, right = 0;
};

/// Batches of the training images: each epoch is a permutation of them, of which what fills no batch is left out.
class Batches {
 public:
  Batches(const Digits& digits, index_t batch, int shift, std::uint64_t seed)
      : order_(digits.training()), batch_(batch), shift_(shift), seed_(seed) {}

  [[nodiscard]] index_t per_epoch() const noexcept { return static_cast<index_t>(order_.size()) / batch_; }
  /// Of a step from 0. Pre: steps ascend.
  [[nodiscard]] std::vector<Sample> at(index_t step) {
    const index_t epoch = step / per_epoch();
    if (epoch != epoch_) {
      epoch_ = epoch;
      shuffle(order_, seed_, epoch);
    }
    std::vector<Sample> samples;
    for (index_t i = 0; i < batch_; ++i) {
      const index_t image = order_[static_cast<std::size_t>((step % per_epoch()) * batch_ + i)];
      samples.push_back({image, moved(step, i, 0), moved(step, i, 1)});
    }
    return samples;
  }

 private:
  /// 0 three times of four, else any of -shift … shift.
  [[nodiscard]] index_t moved(index_t step, index_t i, std::uint32_t lane) const {
    const double unit = 4 * random_unit(seed_ + 1, step, i, lane);
    return unit < 1 ? static_cast<index_t>(unit * (2 * shift_ + 1)) - shift_ : 0;
  }

  std::vector<index_t> order_;
  index_t batch_;
  int shift_;
  std::uint64_t seed_;
  index_t epoch_ = -1;
};

}  // namespace train_digits
