// SPDX-License-Identifier: Apache-2.0
// What was checked and measured: a table to read, and JSON.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace gpu_check {

/// One line of the table. A check has no value beside its verdict, a measurement may have no verdict.
struct Record {
  std::string section{};
  std::string what{};
  int ranks = 1;
  double value = 0;
  std::string unit{};  // empty where there is no value
  bool right = true;
  std::string detail{};
};

class Records {
 public:
  void add(Record record) {
    std::printf("%-9s %-58s %5d  ", record.section.c_str(), record.what.c_str(), record.ranks);
    if (!record.unit.empty()) std::printf("%10.3f %-9s", record.value, record.unit.c_str());
    if (!record.right) std::printf("WRONG ");
    std::printf("%s%s\n", record.unit.empty() && record.right ? "right " : "", record.detail.c_str());
    std::fflush(stdout);
    right_ = right_ && record.right;
    all_.push_back(std::move(record));
  }
  [[nodiscard]] bool all_right() const noexcept { return right_; }

  /// False where the file cannot be written.
  [[nodiscard]] bool write_json(const std::string& path, const std::string& device) const {
    std::ofstream out(path);
    out << "{\"device\": \"" << device << "\", \"records\": [";
    const char* separator = "\n";
    for (const Record& r : all_) {
      out << separator << "  {\"section\": \"" << r.section << "\", \"what\": \"" << r.what
          << "\", \"ranks\": " << r.ranks;
      if (!r.unit.empty()) out << ", \"value\": " << r.value << ", \"unit\": \"" << r.unit << "\"";
      out << ", \"right\": " << (r.right ? "true" : "false") << "}";
      separator = ",\n";
    }
    out << "\n]}\n";
    out.close();
    return static_cast<bool>(out);
  }

 private:
  std::vector<Record> all_;
  bool right_ = true;
};

}  // namespace gpu_check
