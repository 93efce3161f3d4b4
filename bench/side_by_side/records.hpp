// SPDX-License-Identifier: Apache-2.0
// What the measuring programs hand to the report: one line a sample, its fields separated by tabs.
#pragma once

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/contest.hpp"
#include "goals.hpp"

namespace bench {

/// The name under which a cell's samples are kept: "threads 4 f32 1024x1024x1024".
[[nodiscard]] inline std::string cell_key(std::string_view kind, int ranks, std::string_view scalar,
                                          std::string_view problem) {
  std::string key(kind);
  key += " " + std::to_string(ranks) + " ";
  key += scalar;
  key += " ";
  key += problem;
  return key;
}
[[nodiscard]] inline std::string cell_key(const Cell& cell) {
  return cell_key(kind_name(cell.kind), cell.ranks, cell.fp64 ? "f64" : "f32", cell.problem.name);
}

/// Writes on rank 0; on the others nothing.
class RecordWriter {
 public:
  RecordWriter(const std::string& path, bool writes) {
    if (!writes) return;
    file_ = std::fopen(path.c_str(), "w");
    if (file_ == nullptr) throw std::runtime_error("cannot write " + path);
  }
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  ~RecordWriter() {
    if (file_ != nullptr) std::fclose(file_);
  }

  void samples(const std::string& cell, const std::vector<Series>& all) {
    if (file_ == nullptr) return;
    for (const Series& series : all) {
      for (const Sample& s : series.samples) {
        std::fprintf(file_, "sample\t%s\t%s\t%s\t%.9g\t%.9g\t%.9g\n", cell.c_str(), series.role.c_str(),
                     series.name.c_str(), s.seconds, s.before, s.after);
      }
    }
    std::fflush(file_);
  }
  void wrong(const std::string& cell, const std::string& role, const std::string& name) {
    if (file_ == nullptr) return;
    std::fprintf(file_, "wrong\t%s\t%s\t%s\n", cell.c_str(), role.c_str(), name.c_str());
    std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
};

/// All records of some files. Series keep the order in which they were measured.
struct Records {
  std::map<std::string, std::vector<Series>> cells;
  std::vector<std::string> wrong;

  void read(const std::string& path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error("cannot read " + path);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      const auto next = [&fields] {
        std::string field;
        std::getline(fields, field, '\t');
        return field;
      };
      const std::string what = next(), cell = next(), role = next(), name = next();
      if (what == "wrong") {
        wrong.push_back(cell + ": " + role + " " + name);
        continue;
      }
      Sample sample;
      sample.seconds = std::stod(next());
      sample.before = std::stod(next());
      sample.after = std::stod(next());
      series(cell, role, name).samples.push_back(sample);
    }
  }

  /// The series of a cell; none where it was not measured.
  [[nodiscard]] const std::vector<Series>& of(const std::string& cell) const {
    static const std::vector<Series> none;
    const auto found = cells.find(cell);
    return found == cells.end() ? none : found->second;
  }

  /// The first series of a role in a cell, or null.
  [[nodiscard]] const Series* find(const std::string& cell, std::string_view role) const {
    for (const Series& s : of(cell)) {
      if (s.role == role) return &s;
    }
    return nullptr;
  }

 private:
  Series& series(const std::string& cell, const std::string& role, const std::string& name) {
    std::vector<Series>& all = cells[cell];
    for (Series& s : all) {
      if (s.role == role && s.name == name) return s;
    }
    return all.emplace_back(Series{role, name, {}});
  }
};

}  // namespace bench
