// SPDX-License-Identifier: Apache-2.0
// Rows of a table by id, whatever cuts the table: its columns, its rows (the vocabulary), or both.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "partita/nn/activation.hpp"
#include "partita/nn/batch.hpp"
#include "partita/nn/check.hpp"
#include "partita/nn/indices.hpp"
#include "partita/nn/parameter.hpp"
#include "partita/nn/product.hpp"

namespace partita {

struct EmbeddingOptions {
  /// Of the initial table: uniform with this standard deviation (0.02: Devlin et al., 2019), drawn by global index, so
  /// the same whatever the partition.
  std::uint64_t seed = 0;
  double deviation = 0.02;
  /// Unit at which alone the features may be cut.
  index_t feature_unit = 1;
};

/// The words of a refusal, which the compiler prints.
template <class... Lists>
struct table {};
template <class... Lists>
struct tokens {};
template <class Table, class Tokens>
struct look_up {};

/// Stands in the condition of a refusal so that the compiler prints both partitions.
template <class LookUp, bool Exists>
inline constexpr bool embedding_exists_for = Exists;

namespace detail {

/// Of the axes over a table's rows: those along which the tokens are spread, and those along which they are alike.
struct VocabularyAxes {
  AxisList spread;  // in the order in which they cut the tokens
  AxisList alike;
  bool valid = false;
};

constexpr VocabularyAxes vocabulary_axes(const Layout& table, const Layout& out) {
  VocabularyAxes axes;
  for (const int axis : out.rows) {
    if (table.rows.contains(axis)) axes.spread.push_back(axis);
  }
  axes.alike = table.rows.without(axes.spread);
  const int kept = out.rows.size() - axes.spread.size();
  axes.valid = table.cols == out.cols && table.partial.empty() && out.partial.empty() &&
               out.rows.slice(kept, out.rows.size()) == axes.spread;
  return axes;
}

/// Out without the last axes over its rows, among which the table's rows are cut.
template <class Table, class Out>
struct TokensOfTable {
  static constexpr VocabularyAxes axes = vocabulary_axes(Table::layout, Out::layout);
  struct Wanted {
    static constexpr Layout value{
        Out::layout.rows.slice(0, Out::layout.rows.size() - axes.spread.size()), Out::layout.cols, {}};
  };
  using type = typename PartitionOf<typename Out::grid_type, Wanted>::type;
};

}  // namespace detail

/// Ids [M, 1], cut as the rows of Out; a table [V, H] with partition Table; Y[i, :] = table[ids[i], :], [M, H] with
/// partition Out. The table's columns are cut as Y's are. Where nothing cuts its rows, the look-up is local. Where axes
/// do (the vocabulary-parallel embedding of Shoeybi et al., 2019), each rank looks up the ids that it holds:
///
///   tokens alike along the axis     the rows of foreign ids are zero, and Y is the sum along it
///   tokens spread along the axis    ids are gathered along it, and the sum is scattered to the tokens' ranks
///
/// Axes of the second kind are the last over Y's rows. Backward: dY gathered along these axes, and its rows added to
/// the table's gradient by id, in the order of the tokens.
template <class T, class Table, class Out, class Ctx>
class Embedding {
  using WholeTokens = detail::TokensOfTable<Table, Out>;
  static constexpr detail::VocabularyAxes axes = WholeTokens::axes;
  static_assert(
      embedding_exists_for<look_up<detail::spell_t<table, Table>, detail::spell_t<tokens, Out>>, axes.valid>,
      "Embedding: the columns of table and output are cut alike, and the axes that cut both the table's rows and the "
      "tokens are the last over the tokens");

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = tokens_of_t<Out>;
  using output = Out;
  using table_parameter = Parameter<T, Table, Out, Ctx>;
  using ids_type = Activation<std::int64_t, input, Ctx>;

  /// Collective over the grid. Errors, on all ranks: ShapeError, CapacityError.
  template <class G>
  Embedding(const GridHandle<G, Ctx>& grid, std::string name, index_t vocabulary, index_t features,
            const EmbeddingOptions& options = {})
      : table_(std::make_shared<table_parameter>(name + ".table", initial_table(grid, vocabulary, features, options))) {
  }

  [[nodiscard]] table_parameter& table() noexcept { return *table_; }
  [[nodiscard]] const std::shared_ptr<table_parameter>& shared_table() const noexcept { return table_; }

  /// Errors, the same on all ranks and before anything is read by id: ShapeError where the ids are no column;
  /// ArgumentError where an id of any rank is not in [0, V).
  [[nodiscard]] Activation<T, Out, Ctx> forward(ids_type ids, const Pass& = {}) {
    if (ids->shape().cols != 1) {
      throw ShapeError("ShapeError: " + table_->name() + " takes ids of Mx1, got " + to_string(ids->shape()));
    }
    detail::check_indices(*ids, table_->value().shape().rows, std::nullopt, table_->name());
    if constexpr (axes.spread.empty()) {
      ids_ = std::move(ids);
    } else {
      ids_ = gather_batch<tokens_of_t<Rows>>(*ids);
    }
    const Extent2D y = output_extent(extent_of(*ids_));
    if constexpr (Table::layout.rows.empty()) {
      return look_up_rows<T>(y);
    } else {
      auto sum = scattered(look_up_rows<accumulate_t<T>>(y));
      all_reduce_along(grid(), axes.alike, sum.local());
      return detail::narrowed<T>(std::move(sum));
    }
  }

  /// Given dY; ids have no gradient. Adds to the gradient. Errors, on all ranks: ArgumentError without forward(),
  /// ShapeError, UnitError.
  void backward(const Activation<T, Out, Ctx>& dy) {
    detail::check_backward(table_->name(), static_cast<bool>(ids_), extent_of(*dy),
                           ids_ ? output_extent(extent_of(*ids_)) : Extent2D{});
    if constexpr (axes.spread.empty()) {
      add_gradient(dy->local());
    } else {
      const auto rows = gather_batch<Rows>(*dy);
      add_gradient(rows.local());
    }
    ids_.reset();
  }

  /// Forgets what backward() would need.
  void forget() noexcept { ids_.reset(); }

  template <class F>
  void for_each_parameter(F&& f) {
    f(*table_);
  }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& ids, F&& f) const {
    const Extent2D y = output_extent(ids);
    visit_step(rows_step(StepKind::all_gather, place, input::layout, axes.spread.size(), ids), f);
    visit_step(scatter_step(place, y), f);
    visit_step(
        all_reduce_step(place, axes.alike, block_of(Out::layout, y.shape, y.units, place.extents, place.coordinates)),
        f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& ids, F&& f) const {
    visit_step(rows_step(StepKind::all_gather, place, Out::layout, axes.spread.size(), output_extent(ids)), f);
  }
  /// Of Y for ids of this extent.
  [[nodiscard]] Extent2D output_extent(const Extent2D& ids) const {
    const auto& value = std::as_const(*table_).value();
    return {{ids.shape.rows, value.shape().cols}, {ids.units.rows, value.units().cols}};
  }

 private:
  using Rows = typename WholeTokens::type;  // tokens and features of what this rank looks up

  template <class G>
  static auto initial_table(const GridHandle<G, Ctx>& grid, index_t vocabulary, index_t features,
                            const EmbeddingOptions& options) {
    const double bound = std::sqrt(3.0) * options.deviation;
    return random_uniform<T, Table>(grid, {vocabulary, features}, options.seed, -bound, bound,
                                    Units{1, options.feature_unit});
  }
  static constexpr Step scatter_step(const Place& place, const Extent2D& y) {
    return rows_step(StepKind::reduce_scatter, place, Out::layout, axes.spread.size(), y);
  }

  template <class U>
  [[nodiscard]] auto look_up_rows(const Extent2D& y) {
    auto rows = DistTensor<U, Rows, Ctx>::uninitialized(table_->value().grid(), y.shape, y.units);
    const auto& value = std::as_const(*table_).value();
    const kernel::LookUpRows<T, U> look_up{ids_->local(), value.local(), value.block().rows.begin, rows.local()};
    for_each_index(value.context().backend(), rows.local().rows, look_up);
    return rows;
  }
  /// The tokens' own rows of the sum along the axes that spread them.
  template <class U>
  [[nodiscard]] DistTensor<U, Out, Ctx> scattered(DistTensor<U, Rows, Ctx> rows) {
    if constexpr (axes.spread.empty()) {
      return rows;
    } else {
      auto own = DistTensor<U, Out, Ctx>::uninitialized(rows.grid(), rows.shape(), rows.units());
      scatter_rows_along(grid(), scatter_step(place_of(grid()), extent_of(rows)), std::as_const(rows).local(),
                         own.local());
      return own;
    }
  }
  void add_gradient(View<const T> dy) {
    const kernel::AddRowsById<T> add{ids_->local(), dy, table_->value().block().rows.begin, table_->gradient().local()};
    for_each_index(table_->value().context().backend(), add.stripes(), add);
    table_->contribute();
  }

  [[nodiscard]] ProcessGrid<Ctx>& grid() const noexcept { return table_->value().grid().ranks(); }

  std::shared_ptr<table_parameter> table_;
  Activation<std::int64_t, tokens_of_t<Rows>, Ctx> ids_;  // those that this rank looks up
};

namespace detail {
template <class T, class Table, class Out, class Ctx>
struct VocabularyCut {
  static_assert(embedding_exists_for<look_up<spell_t<table, Table>, spell_t<tokens, Out>>, !Table::layout.rows.empty()>,
                "VocabParallelEmbedding: no axis cuts the table's rows; this is an Embedding");
  using type = Embedding<T, Table, Out, Ctx>;
};
}  // namespace detail

/// An Embedding of which the vocabulary is cut; a table whose rows are not does not compile.
template <class T, class Table, class Out, class Ctx>
using VocabParallelEmbedding = typename detail::VocabularyCut<T, Table, Out, Ctx>::type;

}  // namespace partita
