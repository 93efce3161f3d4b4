// SPDX-License-Identifier: Apache-2.0
// The processes of one mpirun as a team.
#pragma once

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "partita/comm/mpi.hpp"
#include "team.hpp"

namespace bench {

/// Over all processes. They are on one machine, so that their clocks agree.
class MpiTeam final : public Team {
 public:
  MpiTeam() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  /// Collective, before MPI is finalised.
  ~MpiTeam() override { MPI_Comm_free(&comm_); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void sync() override { MPI_Barrier(comm_); }

  /// MPI waits by spinning, so the others ask now and then, and sleep in between.
  void alone(const std::function<void()>& f) override {
    doze();
    if (rank_ == 0) f();
    doze();
  }

  [[nodiscard]] const void* share(const void* data, std::size_t bytes) override {
    constexpr std::size_t most = std::size_t{1} << 30;
    if (rank_ != 0) copy_.resize(bytes);
    auto* at = rank_ == 0 ? const_cast<std::byte*>(static_cast<const std::byte*>(data)) : copy_.data();
    for (std::size_t done = 0; done < bytes; done += most) {
      MPI_Bcast(at + done, static_cast<int>(std::min(most, bytes - done)), MPI_BYTE, 0, comm_);
    }
    return at;
  }

  [[nodiscard]] double greatest(double value) override {
    double most = 0;
    MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return most;
  }

 private:
  void doze() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(comm_, &request);
    for (int done = 0; true;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) return;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::byte> copy_;
};

}  // namespace bench
