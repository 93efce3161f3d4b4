// SPDX-License-Identifier: Apache-2.0
// The command line of the measuring programs.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// FILE [--full] [--only TEXT]...
struct Arguments {
  std::string output;
  bool full = false;
  std::vector<std::string> only;

  Arguments(int argc, char** argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--full") {
        full = true;
      } else if (words[i] == "--only" && i + 1 < words.size()) {
        only.emplace_back(words[++i]);
      } else if (output.empty() && !words[i].starts_with("--")) {
        output = words[i];
      } else {
        throw std::invalid_argument("usage: FILE [--full] [--only TEXT]...    measure, and write samples to FILE");
      }
    }
    if (output.empty()) throw std::invalid_argument("the name of the file for the samples is missing");
  }

  /// Whether the cell of this name is to be measured.
  [[nodiscard]] bool wants(std::string_view cell) const {
    if (only.empty()) return true;
    for (const std::string& text : only) {
      if (cell.find(text) != std::string_view::npos) return true;
    }
    return false;
  }
};

}  // namespace bench
