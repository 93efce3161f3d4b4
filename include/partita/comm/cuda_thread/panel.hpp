// SPDX-License-Identifier: Apache-2.0
// Panels that ranks on one device read in their owner's block.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "partita/comm/cuda_thread/endpoint.hpp"

namespace partita {

/// The root's own block as every rank sees it.
///
///   root    before: the block is ready        drain(): its streams wait where they write it
///   peers   wait(): the block is in sight     work that reads it waits for `ready` | release(): here it is over
///
/// wait() waits for the root's call alone, not for its stream. A panel that is destroyed is released.
template <class T>
class [[nodiscard]] CudaThreadPanel {
  using Host = ThreadPanel<detail::CudaLoan*>;

 public:
  CudaThreadPanel() = default;
  CudaThreadPanel(std::shared_ptr<detail::CudaEndpoint> end, Host host, View<const T> view, int root)
      : end_(std::move(end)), host_(std::move(host)), view_(view), root_(root) {}
  CudaThreadPanel(CudaThreadPanel&& other) noexcept { swap(other); }
  CudaThreadPanel& operator=(CudaThreadPanel&& other) noexcept {
    CudaThreadPanel taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~CudaThreadPanel() {
    try {
      release();
    } catch (...) {  // which has told the peers
    }
  }

  void wait() {
    if (end_ == nullptr || loan_ != nullptr || end_->rank() == root_) return;
    end_->guarded([this] {
      host_.wait();
      detail::CudaLoan* loan = host_.view()(0, 0);
      detail::learn_order(loan);
      if (loan->type != &detail::type_tag<T>) {
        throw ArgumentError("ArgumentError: broadcast_panel: rank " + std::to_string(root_) +
                            " lends another element type than rank " + std::to_string(end_->rank()) + " expects");
      }
      detail::check_shape("broadcast_panel", "the panel of the root", {loan->block.rows, loan->block.cols},
                          view_.shape());
      view_ = detail::view_of<const T>(loan->block);
      end_->timeline().owe(access(), loan->ready);
      loan_ = loan;
    });
  }
  [[nodiscard]] View<const T> view() const noexcept { return view_; }

  /// What this rank gives its stream from now on does not read the panel.
  void release() {
    if (end_ == nullptr) return;
    const std::shared_ptr<detail::CudaEndpoint> end = std::move(end_);
    if (detail::CudaLoan* const loan = std::exchange(loan_, nullptr); loan != nullptr && !view_.empty()) {
      end->guarded([&] { loan->done[static_cast<std::size_t>(end->rank())] = end->timeline().done_with(access()); });
      detail::tell_order(loan);
    }
    host_.release();
  }

 private:
  /// Until it is ready the block is being written by the root.
  [[nodiscard]] CudaAccess access() const noexcept {
    CudaAccess a = cuda_access(view_);
    a.writes = true;
    return a;
  }
  void swap(CudaThreadPanel& other) noexcept {
    std::swap(end_, other.end_);
    std::swap(host_, other.host_);
    std::swap(loan_, other.loan_);
    std::swap(view_, other.view_);
    std::swap(root_, other.root_);
  }

  std::shared_ptr<detail::CudaEndpoint> end_;
  Host host_;
  detail::CudaLoan* loan_ = nullptr;  // that this rank reads
  View<const T> view_;
  int root_ = -1;
};

namespace detail {

/// A record for a block that is lent, of those that were drained or a new one.
inline CudaLoan& new_loan(CudaEndpoint& end) {
  if (end.spare_loans.empty()) {
    const std::lock_guard lock(end.me->launch->mutex);
    end.spare_loans.push_back(&end.me->launch->loans.emplace_back());
  }
  CudaLoan& loan = *end.spare_loans.back();
  end.loans.push_back(&loan);
  end.spare_loans.pop_back();
  ++end.me->loans;
  loan.done.assign(static_cast<std::size_t>(end.size()), {});
  return loan;
}

template <class T>
CudaThreadPanel<T> lend_panel(const std::shared_ptr<CudaEndpoint>& end, View<const T> in, View<T> out, int root) {
  using Record = CudaLoan*;
  if (end->rank() != root) {
    end->me->count(1, out.size(), sizeof(T));
    const QuietScope quiet;
    return CudaThreadPanel<T>(end, end->host.broadcast_panel<Record>({}, row_view<Record>(nullptr, 1), root), out,
                              root);
  }
  std::optional<ThreadPanel<Record>> host;
  end->guarded([&] {
    CudaLoan& loan = new_loan(*end);
    loan.access = cuda_access(in);
    loan.type = &type_tag<T>;
    loan.block = rectangle(in);
    loan.ready = {};
    if (end->size() > 1) {
      end->timeline().before_communication({loan.access});
      loan.ready = end->timeline().ready(std::span(&loan.access, 1));
    }
    const QuietScope quiet;
    tell_order(&loan);
    host.emplace(end->host.broadcast_panel<Record>(row_view<const Record>(&loan.self, 1), {}, root));
  });
  return CudaThreadPanel<T>(end, std::move(*host), in, root);
}

/// Returns when all that this rank has lent is released; its streams then wait where they write it.
inline void drain(CudaEndpoint& end) {
  end.guarded([&] { end.host.drain(); });
  for (CudaLoan* loan : end.loans) {
    learn_order(loan);
    for (const CudaPoint& done : loan->done) end.timeline().owe(loan->access, done);
    --end.me->loans;
    loan->done.clear();
    end.spare_loans.push_back(loan);
  }
  end.loans.clear();
}

}  // namespace detail
}  // namespace partita
