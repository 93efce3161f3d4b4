// SPDX-License-Identifier: Apache-2.0
// The handle of a panel among MPI ranks.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "partita/comm/mpi/lending.hpp"

namespace partita {

/// The root's own block as every rank sees it: the block itself on the root and, where it lies in the window, on the
/// other ranks of its node; elsewhere the caller's buffer. A panel that is destroyed is released. One that is destroyed
/// by an exception before it has arrived, or by the root's while it is lent, fails the world.
template <class T>
class [[nodiscard]] MpiPanel {
 public:
  MpiPanel() = default;
  /// The root's, or one without elements.
  explicit MpiPanel(View<const T> view) noexcept : view_(view) {}
  MpiPanel(View<const T> view, std::shared_ptr<detail::MpiGroup> group, std::shared_ptr<detail::MpiTask> loan) noexcept
      : view_(view), group_(std::move(group)), loan_(std::move(loan)), exceptions_(std::uncaught_exceptions()) {}
  MpiPanel(std::shared_ptr<detail::MpiGroup> group, std::shared_ptr<detail::MpiBorrow<T>> borrow) noexcept
      : group_(std::move(group)), borrow_(std::move(borrow)), exceptions_(std::uncaught_exceptions()) {}
  MpiPanel(MpiPanel&& other) noexcept { swap(other); }
  MpiPanel& operator=(MpiPanel&& other) noexcept {
    MpiPanel taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~MpiPanel() {
    const bool unwinding = std::uncaught_exceptions() > exceptions_;
    if (unwinding && loan_ != nullptr && !loan_->done) group_->world->fail("left while its panel was lent");
    if (unwinding && borrow_ != nullptr && !borrow_->done) group_->world->fail("left before a panel had arrived");
    release();
  }

  void wait() {
    if (borrow_ == nullptr || waited_) return;
    const auto borrow = borrow_;
    if (!borrow->done) group_->world->wait_until(borrow->name, [&borrow] { return borrow->done; });
    view_ = borrow->view;
    waited_ = true;
  }

  /// Empty on another rank than the root before wait(), and after release().
  [[nodiscard]] View<const T> view() const noexcept { return view_; }

  /// A panel that nobody has waited for is waited for now, so that its buffer can be used again.
  void release() noexcept {
    if (borrow_ != nullptr) {
      try {
        if (!group_->world->failed()) wait();
        borrow_->give_back();
      } catch (...) {  // the world has failed: every later call says so
      }
    }
    borrow_.reset();
    loan_.reset();
    group_.reset();
    view_ = {};
  }

 private:
  void swap(MpiPanel& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(group_, other.group_);
    std::swap(loan_, other.loan_);
    std::swap(borrow_, other.borrow_);
    std::swap(exceptions_, other.exceptions_);
    std::swap(waited_, other.waited_);
  }

  View<const T> view_;
  std::shared_ptr<detail::MpiGroup> group_;
  std::shared_ptr<detail::MpiTask> loan_;
  std::shared_ptr<detail::MpiBorrow<T>> borrow_;
  int exceptions_ = 0;
  bool waited_ = false;
};

static_assert(CommPanel<MpiPanel<double>, double>);

}  // namespace partita
