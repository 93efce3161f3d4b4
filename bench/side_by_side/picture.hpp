// SPDX-License-Identifier: Apache-2.0
// The picture: efficiency of each problem and number of ranks, as SVG.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "judge.hpp"

namespace bench {

/// Two panels, ranks that are threads above processes: a bar for each number of ranks with its 95 % interval, a line
/// where its goal is, and a ring where ScaLAPACK is.
class Picture {
 public:
  explicit Picture(const Records& records) : records_(records) {}

  void write(const std::string& path) {
    text_.clear();
    const int problems = static_cast<int>(std::size(efficiency_goals));
    width_ = left + problems * cluster + right;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">)",
        width_, 2 * panel + bottom);
    add(R"(<rect width="%d" height="%d" fill="white"/>)", width_, 2 * panel + bottom);
    draw_panel(Kind::threads, {2, 4, 8, 16}, 0);
    draw_panel(Kind::mpi, {4, 8}, panel);
    for (int i = 0; i < problems; ++i) {
      // "dX 2048x1024x4096" in two lines.
      const std::string name = efficiency_goals[i].problem.name;
      const std::size_t blank = name.find(' ');
      const int middle = left + i * cluster + cluster / 2;
      const std::string sizes = blank == std::string::npos ? name : name.substr(blank + 1);
      add(R"(<text x="%d" y="%d" text-anchor="middle" font-size="10">%s</text>)", middle, 2 * panel + 4, sizes.c_str());
      if (blank != std::string::npos) {
        add(R"(<text x="%d" y="%d" text-anchor="middle" font-size="10">%s</text>)", middle, 2 * panel + 17,
            name.substr(0, blank).c_str());
      }
    }
    draw_legend(2 * panel + 38);
    text_ += "</svg>\n";
    std::ofstream(path) << text_;
  }

 private:
  static constexpr int left = 46, right = 12, cluster = 98, panel = 250, bottom = 68, top = 26;
  static constexpr double highest = 1.3;

  template <class... Values>
  void add(const char* format, Values... values) {
    char line[512];
    std::snprintf(line, sizeof line, format, values...);
    text_ += line;
    text_ += '\n';
  }

  [[nodiscard]] static double y_of(double value, int origin) {
    const double height = panel - top - 14;
    return origin + top + height * (1 - std::clamp(value, 0.0, highest) / highest);
  }
  [[nodiscard]] static const char* color_of(int ranks) {
    return ranks == 2 ? "#9ecae1" : ranks == 4 ? "#4292c6" : ranks == 8 ? "#2171b5" : "#08306b";
  }

  void draw_panel(Kind kind, const std::vector<int>& rank_counts, int origin) {
    add(R"(<text x="%d" y="%d" font-size="13">%s</text>)", left, origin + 16,
        kind == Kind::threads ? "ranks that are threads" : "ranks that are MPI processes");
    for (int tick = 0; tick <= 6; ++tick) {
      const double value = 0.2 * tick;
      add(R"(<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="0.7"/>)", left, width_ - right,
          y_of(value, origin), y_of(value, origin), tick == 5 ? "#444" : "#ddd");
      add(R"(<text x="%d" y="%.1f" text-anchor="end">%.1f</text>)", left - 6, y_of(value, origin) + 4, value);
    }
    const double bar = 0.86 * cluster / static_cast<double>(rank_counts.size());
    for (std::size_t i = 0; i < std::size(efficiency_goals); ++i) {
      double x = left + static_cast<double>(i) * cluster + 0.07 * cluster;
      for (const int ranks : rank_counts) {
        draw_bar(efficiency_goals[i], {efficiency_goals[i].problem, false, kind, ranks}, x, bar, origin);
        x += bar;
      }
    }
  }

  void draw_bar(const EfficiencyGoals& row, const Cell& cell, double x, double bar, int origin) {
    const double middle = x + bar / 2;
    if (const Series* ours = records_.find(cell_key(cell), "ours"); ours != nullptr) {
      const Estimate e = estimate_median(efficiencies(*ours));
      add(R"(<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>)", x + 1, y_of(e.value, origin), bar - 2,
          y_of(0, origin) - y_of(e.value, origin), color_of(cell.ranks));
      add(R"(<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#777"/>)", middle, middle, y_of(e.low, origin),
          y_of(e.high, origin));
      if (const double goal = goal_of(row, cell); goal != no_goal) {
        add(R"(<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#d7301f" stroke-width="2"/>)", x, x + bar,
            y_of(goal, origin), y_of(goal, origin));
      }
    }
    const std::string peer_cell = cell_key("mpi", cell.ranks, "f32", cell.problem.name);
    if (const Series* peer = records_.find(peer_cell, "scalapack"); peer != nullptr) {
      add(R"(<circle cx="%.1f" cy="%.1f" r="4" fill="white" stroke="#e6550d" stroke-width="1.8"/>)", middle,
          y_of(median(efficiencies(*peer)), origin));
    }
  }

  void draw_legend(int y) {
    int x = left;
    for (const int ranks : {2, 4, 8, 16}) {
      add(R"(<rect x="%d" y="%d" width="11" height="11" fill="%s"/><text x="%d" y="%d">%d ranks</text>)", x, y - 10,
          color_of(ranks), x + 15, y, ranks);
      x += 72;
    }
    add(R"(<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#d7301f" stroke-width="2"/><text x="%d" y="%d">goal</text>)",
        x, x + 14, y - 4, y - 4, x + 18, y);
    x += 60;
    add(R"(<circle cx="%d" cy="%d" r="4" fill="white" stroke="#e6550d" stroke-width="1.8"/>)", x + 5, y - 4);
    add(R"(<text x="%d" y="%d">ScaLAPACK on as many processes</text>)", x + 14, y);
    add(R"(<text x="%d" y="%d">fp32: time of OpenBLAS on all cores / time of the distributed product. Lines: 95 %% intervals.</text>)",
        left, y + 18);
  }

  const Records& records_;
  std::string text_;
  int width_ = 0;
};

}  // namespace bench
