// SPDX-License-Identifier: Apache-2.0
// The learning curve as a table (CSV) and as a picture (SVG).
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "partita/base/error.hpp"
#include "settings.hpp"

namespace train_digits {

/// Opened before the training, so that a wrong name is told at once. Throws FileError.
class OutputFile {
 public:
  OutputFile() = default;
  explicit OutputFile(const std::string& path) : path_(path) {
    if (path.empty()) return;
    out_.open(path, std::ios::trunc);
    if (!out_) throw partita::FileError("FileError: " + path + " cannot be written; its directory must exist");
  }
  void write(const std::string& text) {
    if (path_.empty()) return;
    if (!(out_ << text).flush()) throw partita::FileError("FileError: " + path_ + " cannot be written to its end");
  }

 private:
  std::string path_;
  std::ofstream out_;
};

inline std::string csv_text(const std::vector<Point>& curve) {
  std::string text = "step,loss,learning_rate,gradient_norm,accuracy,seconds\n";
  for (const Point& point : curve) {
    char line[160];
    char accuracy[32] = "";
    if (point.accuracy >= 0) std::snprintf(accuracy, sizeof accuracy, "%.6f", point.accuracy);
    std::snprintf(line, sizeof line, "%lld,%.17g,%.6g,%.9g,%s,%.3f\n", static_cast<long long>(point.step), point.loss,
                  point.learning_rate, point.gradient_norm, accuracy, point.seconds);
    text += line;
  }
  return text;
}

/// Loss in blue with its scale on the left, the mean of the last steps bold; accuracy in orange on the right, from 0 to
/// 100 %.
class Picture {
 public:
  Picture(const std::vector<Point>& curve, std::string title) : curve_(curve), title_(std::move(title)) {
    for (const Point& point : curve_) top_ = std::max(top_, point.loss);
    top_ = std::min(top_ * 1.05, 1e6);
  }

  [[nodiscard]] std::string text() const {
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 420\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"800\" height=\"420\" fill=\"white\"/>\n";
    svg += label(400, 22, "middle", title_, "black");
    for (int i = 0; i <= 5; ++i) {
      const double y = bottom - i * (bottom - above) / 5;
      svg += "<line x1=\"" + number(left) + "\" x2=\"" + number(right) + "\" y1=\"" + number(y) + "\" y2=\"" +
             number(y) + "\" stroke=\"#ddd\"/>\n";
      svg += label(left - 8, y + 4, "end", number(top_ * i / 5), loss_color);
      svg += label(right + 8, y + 4, "start", std::to_string(20 * i) + " %", accuracy_color);
    }
    for (int i = 0; i <= 4; ++i) {
      const index_t step = steps() * i / 4;
      svg += label(x_of(step), bottom + 18, "middle", std::to_string(step), "black");
    }
    svg += label((left + right) / 2, bottom + 38, "middle", "step", "black");
    svg += label(left, above - 10, "middle", "loss", loss_color);
    svg += label(right, above - 10, "middle", "accuracy, held out", accuracy_color);
    svg += line(losses(0), loss_color, "0.8\" stroke-opacity=\"0.35");
    svg += line(losses(0.95), loss_color, "2");
    svg += line(accuracies(), accuracy_color, "2");
    return svg + "</svg>\n";
  }

 private:
  struct Spot {
    double x = 0, y = 0;
  };
  static constexpr double left = 60, right = 730, above = 50, bottom = 360;
  static constexpr const char* loss_color = "#1f6fb4";
  static constexpr const char* accuracy_color = "#d9731a";

  [[nodiscard]] index_t steps() const { return curve_.empty() ? 1 : curve_.back().step; }
  [[nodiscard]] double x_of(index_t step) const {
    return left + (right - left) * static_cast<double>(step) / static_cast<double>(steps());
  }
  /// Exponential means of the losses, of which `kept` is what remains of the older ones.
  [[nodiscard]] std::vector<Spot> losses(double kept) const {
    std::vector<Spot> spots;
    double mean = curve_.empty() ? 0 : curve_.front().loss;
    for (const Point& point : curve_) {
      mean = kept * mean + (1 - kept) * point.loss;
      spots.push_back({x_of(point.step), bottom - (bottom - above) * std::clamp(mean / top_, 0.0, 1.0)});
    }
    return spots;
  }
  [[nodiscard]] std::vector<Spot> accuracies() const {
    std::vector<Spot> spots;
    for (const Point& point : curve_) {
      if (point.accuracy >= 0) spots.push_back({x_of(point.step), bottom - (bottom - above) * point.accuracy});
    }
    return spots;
  }

  static std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", x);
    return text;
  }
  static std::string line(const std::vector<Spot>& spots, const std::string& color, const std::string& width) {
    std::string text = "<polyline fill=\"none\" stroke=\"" + color + "\" stroke-width=\"" + width + "\" points=\"";
    for (const Spot& spot : spots) {
      char pair[64];
      std::snprintf(pair, sizeof pair, "%.1f,%.1f ", spot.x, spot.y);
      text += pair;
    }
    return text + "\"/>\n";
  }
  static std::string label(double x, double y, const std::string& anchor, const std::string& text,
                           const std::string& color) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\" fill=\"" + color +
           "\">" + text + "</text>\n";
  }

  const std::vector<Point>& curve_;
  std::string title_;
  double top_ = 1e-9;
};

}  // namespace train_digits
