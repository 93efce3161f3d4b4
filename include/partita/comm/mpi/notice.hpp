// SPDX-License-Identifier: Apache-2.0
// How the failure of one MPI rank becomes known to the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>

#include "partita/comm/mpi/library.hpp"

namespace partita::detail {

/// Each rank has a receive posted from the start, and looks at it while it waits; a rank that fails sends to every
/// other one. The first failure that a rank learns of is kept.
class MpiNotices {
 public:
  static constexpr int tag = 0;

  /// `comm` carries nothing else with this tag.
  void open(MPI_Comm comm, int rank, int size) {
    comm_ = comm;
    rank_ = rank;
    size_ = size;
    mpi_check(MPI_Irecv(&heard_, sizeof(heard_), MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &listening_), "MPI_Irecv");
  }
  void close() noexcept {
    if (listening_ == MPI_REQUEST_NULL || !mpi_usable()) return;
    MPI_Cancel(&listening_);
    MPI_Wait(&listening_, MPI_STATUS_IGNORE);
  }

  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] int origin() const noexcept { return heard_.origin; }
  [[nodiscard]] const char* reason() const noexcept { return heard_.reason.data(); }
  void throw_if_failed() const {
    if (failed_) throw PeerFailed(heard_.origin, heard_.reason.data());
  }

  /// This rank fails; never blocks.
  void fail(std::string_view reason) noexcept {
    if (failed_) return;
    Notice own;
    own.origin = rank_;
    std::copy_n(reason.data(), std::min(reason.size(), own.reason.size() - 1), own.reason.data());
    // Never freed: MPI may read it until the process ends.
    if (auto* notice = new (std::nothrow) Notice(own); notice != nullptr&& mpi_usable()) {
      for (int r = 0; r < size_; ++r) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (r != rank_ && MPI_Isend(notice, sizeof(Notice), MPI_BYTE, r, tag, comm_, &request) == MPI_SUCCESS) {
          MPI_Request_free(&request);
        }
      }
    }
    close();
    failed_ = true;
    heard_ = own;
  }

  /// Looks for a peer's notice.
  void listen() noexcept {
    if (failed_ || listening_ == MPI_REQUEST_NULL) return;
    int arrived = 0;
    if (MPI_Test(&listening_, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived != 0) failed_ = true;
  }

 private:
  struct Notice {
    int origin = -1;
    std::array<char, 252> reason{};
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool failed_ = false;
  Notice heard_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
};

}  // namespace partita::detail
