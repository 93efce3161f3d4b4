// SPDX-License-Identifier: Apache-2.0
// A rank's place in a job as environment variables tell it, in the way of torchrun. No CUDA.
#pragma once

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "partita/base/error.hpp"

namespace partita {

/// RANK of WORLD_SIZE ranks, LOCAL_RANK among those of its machine; rank 0 is found at MASTER_ADDR.
struct JobPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string host;
  int port = 0;  // PARTITA_PORT, or the one after MASTER_PORT, which is perhaps the launcher's own
};

namespace detail {

[[nodiscard]] inline const char* from_environment(const char* name) { return std::getenv(name); }  // NOLINT

[[nodiscard]] inline std::string job_text(const char* (*look_up)(const char*), const char* name) {
  const char* const value = look_up(name);
  if (value != nullptr && *value != '\0') return value;
  throw ArgumentError(std::string("ArgumentError: the environment variable ") + name +
                      " is not set; torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each "
                      "process, and so can you");
}

[[nodiscard]] inline int job_number(const char* (*look_up)(const char*), const char* name, int least, int most) {
  const std::string text = job_text(look_up, name);
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stopped == end && number >= least && number <= most) return number;
  throw ArgumentError(std::string("ArgumentError: the environment variable ") + name + " is '" + text +
                      "', it must be a number from " + std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace detail

/// Throws ArgumentError for a variable that is missing or is no number in its range, by name.
[[nodiscard]] inline JobPlace job_from_environment(const char* (*look_up)(const char*) = detail::from_environment) {
  constexpr int many = 1 << 24;
  JobPlace job;
  job.size = detail::job_number(look_up, "WORLD_SIZE", 1, many);
  job.rank = detail::job_number(look_up, "RANK", 0, job.size - 1);
  job.local_rank = detail::job_number(look_up, "LOCAL_RANK", 0, job.size - 1);
  job.host = detail::job_text(look_up, "MASTER_ADDR");
  const char* const own_port = look_up("PARTITA_PORT");
  const bool own = own_port != nullptr && *own_port != '\0';
  job.port = own ? detail::job_number(look_up, "PARTITA_PORT", 1, 65535)
                 : detail::job_number(look_up, "MASTER_PORT", 1, 65534) + 1;
  return job;
}

}  // namespace partita
