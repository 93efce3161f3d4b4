// SPDX-License-Identifier: Apache-2.0
// What a rank reads in a peer's block: the panel of a broadcast, or a part of a block that is lent to all.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "partita/comm/arguments.hpp"
#include "partita/comm/thread/memory.hpp"
#include "partita/comm/thread/ring.hpp"

namespace partita {
namespace detail {

/// How a lender that leaves its scope by an exception ends a loan: the launch fails, unless all are done with it, and
/// no peer reads the block afterwards.
inline void end_loan_unwinding(Endpoint& end, std::uint64_t ticket) noexcept {
  if (end.group->all_done(ticket)) return;
  end.world->fail(end.world_rank, "left while its panel was lent");
  leave(*end.world, *end.me, true);
}

}  // namespace detail

/// The lender's own block, or a part of it, as every rank sees it.
///
///   root      ThreadPanel  --view-->  its block  <--view--  ThreadPanel      peers
///             (drain() waits)                               (release() ends the loan)
///
/// A panel that is destroyed is released; so is every panel of a rank that leaves an operation with an exception, and
/// its view is empty from then on. A root's panel that dies while an exception unwinds fails the launch, unless all
/// have released it, and waits until no peer reads the block any more. Of a ThreadLending, which outlives its panels,
/// the loan ends with the lending.
template <class T>
class [[nodiscard]] ThreadPanel {
 public:
  ThreadPanel() = default;
  /// Of a broadcast.
  ThreadPanel(std::shared_ptr<detail::Endpoint> end, detail::Operation& o, View<const T> view) noexcept
      : end_(std::move(end)),
        operation_(&o),
        ticket_(o.ticket),
        view_(view),
        exceptions_(std::uncaught_exceptions()),
        root_(o.post.root) {}
  /// The rectangle `part` of the matrix of which `root` has lent a block; see ThreadLending.
  ThreadPanel(std::shared_ptr<detail::Endpoint> end, detail::Operation& o, int root, Block part)
      : end_(std::move(end)), operation_(&o), ticket_(o.ticket), root_(root), is_part_(true), part_(part) {
    view_ = View<const T>(nullptr, part.shape());
    if (o.post.type != &detail::type_tag<T>) {
      throw ArgumentError("ArgumentError: panel_of asks for another element type than was lent");
    }
    if (!own()) return;
    check_fits(o.post);
    view_ = seen(o.post);
  }
  ThreadPanel(ThreadPanel&& other) noexcept { swap(other); }
  ThreadPanel& operator=(ThreadPanel&& other) noexcept {
    ThreadPanel taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~ThreadPanel() {
    if (operation_ != nullptr && own() && !is_part_ && std::uncaught_exceptions() > exceptions_) {
      detail::end_loan_unwinding(*end_, ticket_);
    }
    release();
  }

  void wait() {
    if (operation_ == nullptr || own() || (borrowed_ && operation_->held) || read_) return;
    detail::Group& group = *end_->group;
    const auto ready = [&] {
      if (group.posted(ticket_, root_)) return true;
      detail::advance_all(*end_->me);
      return group.posted(ticket_, root_);
    };
    detail::wait_or_leave(*end_, operation_->name, detail::Parked::for_operations, ready,
                          [&] { return group.departed(ticket_, root_, false); });
    try {
      borrow();
    } catch (const Error& error) {
      end_->world->fail(end_->world_rank, error.what());
      detail::leave(*end_->world, *end_->me, true);
      throw;
    }
  }

  /// Empty on a peer before wait() and after release().
  [[nodiscard]] View<const T> view() const noexcept {
    if (operation_ == nullptr || (!own() && !(borrowed_ && operation_->held))) return {};
    return view_;
  }

  void release() noexcept {
    if (operation_ == nullptr) return;
    if (borrowed_ && operation_->held) return_loan();
    if (!is_part_) {
      if (operation_->open) {  // given up before its calls were compared
        detail::close_task(*end_->me, *operation_, false);
        operation_->uninspected = false;
        if (own()) detail::finish(*operation_);
      }
      if (!own()) detail::finish(*operation_);
      if (operation_->ticket == ticket_) operation_->owed = false;
    }
    operation_ = nullptr;
    end_.reset();
  }

  // Of a part, where a peer's thread works for this rank, which waits meanwhile (help.hpp).

  /// Whether wait() would find all that it needs.
  [[nodiscard]] bool lent() const noexcept {
    if (own()) return true;
    if (!end_->group->posted(ticket_, root_)) return false;
    const detail::Post& post = end_->group->operation(ticket_, root_).post;
    return post.kind == detail::Kind::lending && post.type == operation_->post.type && fits(post);
  }
  /// What view() will be. Pre: lent(); the thread touches memory of others (World).
  [[nodiscard]] View<const T> lent_view() const noexcept {
    return own() ? view_ : seen(end_->group->operation(ticket_, root_).post);
  }
  /// lent_view() has been read: this rank need neither wait nor release.
  void end_loan() noexcept {
    if (!is_part_ || own() || read_) return;
    end_->world->credit(end_->world_rank, 1, view_.size(), sizeof(T));
    read_ = true;
  }

 private:
  [[nodiscard]] bool own() const noexcept { return root_ == end_->rank; }

  /// Of a part: whether it lies in the lent block of a matrix as large as this rank's.
  [[nodiscard]] bool fits(const detail::Post& post) const noexcept {
    const Range &rows = part_.rows, &cols = part_.cols;
    const Block& place = post.place;
    return post.whole == operation_->post.whole && place.rows.begin <= rows.begin && rows.end <= place.rows.end &&
           place.cols.begin <= cols.begin && cols.end <= place.cols.end;
  }
  void check_fits(const detail::Post& post) const {
    if (!is_part_) {
      detail::check_shape(operation_->name, "the panel of the root", {post.in.rows, post.in.cols}, view_.shape());
    } else if (!fits(post)) {
      const auto text = [](Block b, Shape whole) {
        const auto range = [](Range r) { return std::to_string(r.begin) + " to " + std::to_string(r.end); };
        return "rows " + range(b.rows) + ", columns " + range(b.cols) + " of a matrix of " + to_string(whole);
      };
      throw ShapeError("ShapeError: rank " + std::to_string(root_) + " lends " + text(post.place, post.whole) +
                       "; rank " + std::to_string(end_->rank) + " expects in it " +
                       text(part_, operation_->post.whole) + " (as they are stored)");
    }
  }
  [[nodiscard]] View<const T> seen(const detail::Post& post) const noexcept {
    const View<const T> block = detail::view_of<const T>(post.in);
    if (!is_part_) return block;
    return block.sub({part_.rows.relative_to(post.place.rows.begin), part_.cols.relative_to(post.place.cols.begin)});
  }

  void borrow() {
    const detail::Touch touch(*end_->world, *end_->me);
    const detail::Post& post = detail::post_of(*operation_, root_);
    check_fits(post);
    const int owner = end_->group->world_rank(root_);
    end_->me->held.push_back({operation_, owner});
    operation_->held = true;
    borrowed_ = true;
    end_->world->rank(owner).borrowed.fetch_add(1);
    view_ = seen(post);
    end_->world->credit(end_->world_rank, 1, view_.size(), sizeof(T));
  }
  void return_loan() noexcept {
    auto& held = end_->me->held;
    const int owner = end_->group->world_rank(root_);
    held.erase(std::find(held.begin(), held.end(), detail::Loaned{operation_, owner}));
    if (!is_part_) operation_->held = false;
    borrowed_ = false;
    end_->world->rank(owner).borrowed.fetch_sub(1);
  }

  void swap(ThreadPanel& other) noexcept {
    std::swap(end_, other.end_);
    std::swap(operation_, other.operation_);
    std::swap(ticket_, other.ticket_);
    std::swap(view_, other.view_);
    std::swap(exceptions_, other.exceptions_);
    std::swap(root_, other.root_);
    std::swap(is_part_, other.is_part_);
    std::swap(part_, other.part_);
    std::swap(borrowed_, other.borrowed_);
    std::swap(read_, other.read_);
  }

  std::shared_ptr<detail::Endpoint> end_;
  detail::Operation* operation_ = nullptr;
  std::uint64_t ticket_ = 0;
  View<const T> view_;
  int exceptions_ = 0;
  int root_ = 0;  // whose block it is
  bool is_part_ = false;
  Block part_;
  bool borrowed_ = false;
  bool read_ = false;  // as lent_view()
};

static_assert(CommPanel<ThreadPanel<double>, double>);

/// The blocks of all ranks of a communicator, each lent to all others.
///
///   every rank     ThreadLending  --panel(root, part)-->  ThreadPanel: a part of root's block
///
/// The loan of a rank's own block lasts until all have released their lending: drain() waits for that. A lending that
/// is destroyed is released; one that dies while an exception unwinds fails the launch, unless all others have released
/// theirs, as a root's panel does.
class [[nodiscard]] ThreadLending {
 public:
  ThreadLending() = default;
  ThreadLending(std::shared_ptr<detail::Endpoint> end, detail::Operation& o) noexcept
      : end_(std::move(end)), operation_(&o), ticket_(o.ticket), exceptions_(std::uncaught_exceptions()) {}
  ThreadLending(ThreadLending&& other) noexcept { swap(other); }
  ThreadLending& operator=(ThreadLending&& other) noexcept {
    ThreadLending taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~ThreadLending() {
    if (operation_ == nullptr) return;
    end_loan();  // this rank's own, so that it is not awaited below
    if (std::uncaught_exceptions() > exceptions_) detail::end_loan_unwinding(*end_, ticket_);
    release();
  }

  /// The rectangle `part` of the matrix, which root holds. ArgumentError where T is not the element of what was lent,
  /// ShapeError where it is this rank's part and was not lent; of a peer's, wait() tells.
  template <class T>
  [[nodiscard]] ThreadPanel<T> panel(int root, Block part) const {
    if (operation_ == nullptr) throw ArgumentError("ArgumentError: panel_of a lending that is released");
    detail::check_member("panel_of", "root", root, end_->group->size);
    // The lending keeps the endpoint alive.
    return {std::shared_ptr<detail::Endpoint>(std::shared_ptr<void>(), end_.get()), *operation_, root, part};
  }
  /// Pre: so are its panels.
  void release() noexcept {
    if (operation_ == nullptr) return;
    end_loan();
    operation_->held = false;
    if (operation_->ticket == ticket_) operation_->owed = false;
    operation_ = nullptr;
    end_.reset();
  }
  /// This rank reads nothing of it any more. On any thread, as that of its panels.
  void end_loan() noexcept {
    if (!std::exchange(ended_, true)) detail::finish(*operation_);
  }

 private:
  void swap(ThreadLending& other) noexcept {
    std::swap(end_, other.end_);
    std::swap(operation_, other.operation_);
    std::swap(ticket_, other.ticket_);
    std::swap(exceptions_, other.exceptions_);
    std::swap(ended_, other.ended_);
  }

  std::shared_ptr<detail::Endpoint> end_;
  detail::Operation* operation_ = nullptr;
  std::uint64_t ticket_ = 0;
  int exceptions_ = 0;
  bool ended_ = false;
};

}  // namespace partita
