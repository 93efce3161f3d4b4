// SPDX-License-Identifier: Apache-2.0
// side_by_side_report JSON SVG SAMPLES...: the table, the verdicts on the goals, the same as JSON, and the picture.
// Exits with 0 whatever was missed, and with 1 where a result was wrong.
#include <cstdio>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "judge.hpp"
#include "picture.hpp"

namespace {

using namespace bench;

std::string number(double x, const char* format = "%.2f") {
  char text[32];
  std::snprintf(text, sizeof text, format, x);
  return text;
}
std::string interval(const Estimate& e) { return number(e.value) + " [" + number(e.low) + ", " + number(e.high) + "]"; }

/// Milliseconds of the median sample.
double median_ms(const Series& series) {
  std::vector<double> seconds;
  for (const Sample& s : series.samples) seconds.push_back(s.seconds);
  return median(seconds) * 1e3;
}
double baseline_ms(const Series& series) {
  std::vector<double> seconds;
  for (const Sample& s : series.samples) seconds.push_back((s.before + s.after) / 2);
  return median(seconds) * 1e3;
}
double greatest_disturbance(const Series& series) {
  double most = 0;
  for (const Sample& s : series.samples) most = std::max(most, s.disturbance());
  return most;
}

/// The cells in the order of the goals, then whatever else was measured.
std::vector<std::string> ordered_cells(const Records& records) {
  std::vector<std::string> order;
  std::set<std::string> known;
  const auto add = [&](const std::string& key) {
    if (records.cells.contains(key) && known.insert(key).second) order.push_back(key);
  };
  for (const Cell& cell : all_cells()) add(cell_key(cell));
  for (const auto& [key, series] : records.cells) add(key);
  return order;
}

void print_table(const Records& records) {
  std::printf("%-34s %-12s %-36s %10s %10s  %-20s %s\n", "cell", "contestant", "policy, grid or size", "ms", "baseline",
              "baseline / it", "against the first");
  for (const std::string& key : ordered_cells(records)) {
    const std::vector<Series>& all = records.of(key);
    for (const Series& series : all) {
      const bool first = &series == &all.front();
      const double disturbed = greatest_disturbance(series);
      std::printf("%-34s %-12s %-36s %10.3f %10.3f  %-20s %-20s%s\n", first ? key.c_str() : "", series.role.c_str(),
                  series.name.c_str(), median_ms(series), baseline_ms(series),
                  interval(estimate_median(efficiencies(series))).c_str(),
                  first ? "" : interval(estimate_median(paired_ratios(all.front(), series))).c_str(),
                  disturbed > Contest::most_disturbance
                      ? ("baselines differ by " + number(100 * disturbed, "%.0f %%")).c_str()
                      : "");
    }
  }
  std::printf(
      "\nms: median of the rounds, from the first rank's start to the last one's end. baseline: OpenBLAS on all cores\n"
      "before and after (collectives: copying 64 MiB on each core). In brackets: 95 %% intervals. bare: the best\n"
      "policy's local products without the library, the machine's limit for that layout. ScaLAPACK beside threads is\n"
      "the ratio of efficiencies of two runs, each bracketed by its own baseline.\n\n");
}

void print_verdicts(const std::vector<Verdict>& verdicts) {
  std::printf("%-62s %-34s %-20s %s\n", "goal", "measure", "value", "should be");
  for (const Verdict& v : verdicts) {
    std::printf("%-62s %-34s %-20s %s %.2f  %s\n", v.what.c_str(), v.measure.c_str(), interval(v.estimate).c_str(),
                v.at_most ? "<=" : ">=", v.goal,
                v.missed()        ? "MISSED"
                : v.short_of_it() ? "within the spread"
                                  : "met");
  }
  std::printf("\n");
}

void write_json(const std::string& path, const Records& records, const std::vector<Verdict>& verdicts) {
  std::ofstream out(path);
  const auto estimate = [](const Estimate& e) {
    return "{\"value\": " + number(e.value, "%.6g") + ", \"low\": " + number(e.low, "%.6g") +
           ", \"high\": " + number(e.high, "%.6g") + "}";
  };
  out << "{\n\"cells\": [";
  const char* separator = "\n";
  for (const std::string& key : ordered_cells(records)) {
    for (const Series& series : records.of(key)) {
      out << separator << "{\"cell\": \"" << key << "\", \"contestant\": \"" << series.role << "\", \"name\": \""
          << series.name << "\", \"efficiency\": " << estimate(estimate_median(efficiencies(series)))
          << ", \"samples\": [";
      const char* comma = "";
      for (const Sample& s : series.samples) {
        out << comma << "{\"seconds\": " << number(s.seconds, "%.9g") << ", \"before\": " << number(s.before, "%.9g")
            << ", \"after\": " << number(s.after, "%.9g") << "}";
        comma = ", ";
      }
      out << "]}";
      separator = ",\n";
    }
  }
  out << "\n],\n\"goals\": [";
  separator = "\n";
  for (const Verdict& v : verdicts) {
    out << separator << "{\"what\": \"" << v.what << "\", \"measure\": \"" << v.measure
        << "\", \"estimate\": " << estimate(v.estimate) << ", \"" << (v.at_most ? "at_most" : "at_least")
        << "\": " << number(v.goal, "%.6g") << ", \"missed\": " << (v.missed() ? "true" : "false") << "}";
    separator = ",\n";
  }
  out << "\n]\n}\n";
}

int report(const std::vector<std::string>& arguments) {
  Records records;
  for (std::size_t i = 2; i < arguments.size(); ++i) records.read(arguments[i]);
  const std::vector<Verdict> verdicts = judge(records);
  print_table(records);
  print_verdicts(verdicts);
  write_json(arguments[0], records, verdicts);
  Picture(records).write(arguments[1]);
  for (const std::string& wrong : records.wrong) std::printf("WRONG RESULT: %s\n", wrong.c_str());

  std::size_t absent = 0;
  for (const Cell& cell : all_cells()) {
    if (records.find(cell_key(cell), "ours") == nullptr) ++absent;
  }
  const std::string limits = absent == 0 ? "" : " (" + std::to_string(absent) + " cells were not measured)";
  std::size_t missed = 0;
  for (const Verdict& v : verdicts) {
    if (!v.missed()) continue;
    if (missed++ == 0) std::printf("goals missed:\n");
    std::printf("  %s: %s %s, the goal is %s %.2f%s\n", v.what.c_str(), v.measure.c_str(), interval(v.estimate).c_str(),
                v.at_most ? "at most" : "at least", v.goal,
                v.bare ? ("; its local products alone reach " + interval(*v.bare)).c_str() : "");
  }
  if (!records.wrong.empty()) {
    std::printf("%zu results are wrong\n", records.wrong.size());
  } else if (missed == 0) {
    std::printf("all goals met%s\n", limits.c_str());
  } else {
    std::printf("%zu of %zu goals missed%s\n", missed, verdicts.size(), limits.c_str());
  }
  return records.wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: side_by_side_report JSON SVG SAMPLES...\n");
    return 2;
  }
  try {
    return report({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "side_by_side_report: %s\n", error.what());
    return 2;
  }
}
