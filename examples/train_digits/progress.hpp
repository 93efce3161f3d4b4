// SPDX-License-Identifier: Apache-2.0
// How far the training is, on the standard error: a line that is written anew, or lines where that is no terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "settings.hpp"

namespace train_digits {

class Progress {
 public:
  Progress(index_t steps, index_t batch) : steps_(steps), batch_(batch), terminal_(::isatty(2) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (terminal_ && shown_ > 0) std::fputc('\n', stderr);
  }

  void show(const Point& point) {
    if (point.accuracy >= 0) accuracy_ = point.accuracy;
    // The first steps' losses jump: show a mean of the last ones.
    loss_ = shown_ == 0 && point.step == 1 ? point.loss : 0.9 * loss_ + 0.1 * point.loss;
    const bool last = point.step == steps_;
    const bool due = terminal_ ? point.seconds - shown_at_ > 0.1 : point.step * 20 / steps_ > shown_;
    if (!due && !last) return;
    shown_at_ = point.seconds;
    shown_ = terminal_ ? 1 : point.step * 20 / steps_;
    print(point);
  }

 private:
  void print(const Point& point) const {
    const double rate = static_cast<double>(point.step) / (point.seconds > 0 ? point.seconds : 1e-9);
    const auto left = static_cast<int>(static_cast<double>(steps_ - point.step) / rate + 0.5);
    std::string bar;
    if (terminal_) {
      constexpr index_t width = 24;
      bar = "\r[";
      for (index_t i = 0; i < width; ++i) bar += i < point.step * width / steps_ ? '#' : '.';
      bar += "] ";
    }
    std::string accuracy;
    if (accuracy_ >= 0) {
      char text[32];
      std::snprintf(text, sizeof text, ", held out %.2f %%", 100 * accuracy_);
      accuracy = text;
    }
    std::fprintf(stderr, "%sstep %lld of %lld, loss %.4f%s, %.0f rows/s, %d:%02d left%s", bar.c_str(),
                 static_cast<long long>(point.step), static_cast<long long>(steps_), loss_, accuracy.c_str(),
                 rate * static_cast<double>(batch_), left / 60, left % 60, terminal_ ? "   " : "\n");
    std::fflush(stderr);
  }

  index_t steps_;
  index_t batch_;
  bool terminal_;
  index_t shown_ = 0;
  double shown_at_ = -1;
  double loss_ = 0;
  double accuracy_ = -1;
};

}  // namespace train_digits
