// SPDX-License-Identifier: Apache-2.0
// Every body of the layers as a kernel of CudaBackend gives what it gives on the host.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "partita/nn/kernel/bodies.hpp"
#include "unit/cuda/body_support.hpp"

namespace partita {
namespace {

using test::check_body;
using test::Indices;
using test::RandomBlock;

constexpr Shape shapes[] = {{1, 1}, {3, 5}, {7, 130}, {130, 7}, {0, 4}, {4, 0}, {33, 64}};

template <class T>
void check_elementwise(CudaBackend& backend, Shape s) {
  using namespace kernel;
  using A = accumulate_t<T>;
  const RandomBlock<T> in(s, 1);
  const RandomBlock<T> other(s, 2);
  const RandomBlock<T> out(s, 3);
  check_body(backend, s.rows, Apply<T, ExactGelu>{in.view(), out.view()});
  check_body(backend, s.rows, Apply<T, kernel::TanhGelu>{in.view(), out.view()});
  check_body(backend, s.rows, Apply<T, kernel::Relu>{in.view(), out.view()});
  check_body(backend, s.rows, ApplySlope<T, ExactGelu>{in.view(), other.view(), out.view()});
  check_body(backend, s.rows, ApplySlope<T, kernel::TanhGelu>{in.view(), other.view(), out.view()});
  check_body(backend, s.rows, ApplySlope<T, kernel::Relu>{in.view(), other.view(), out.view()});
  check_body(backend, s.rows, Add<T>{in.view(), other.view(), out.view()});
  check_body(backend, s.rows, Drop<T>{in.view(), out.view(), Keep{7, 3, 0.4}, 11, 5});
  check_body(backend, s.rows, Widen<T, A>{in.view(), RandomBlock<A>(s, 4).view()});

  const RandomBlock<T> row({1, s.cols}, 5);
  const RandomBlock<A> sum({1, s.cols}, 6);
  check_body(backend, s.rows, AddRow<T>{row.view(), out.view()});
  check_body(backend, s.rows, SpreadRow<T>{sum.view(), A(0.25), out.view()});
  const SumRows<T> rows{in.view(), sum.view()};
  check_body(backend, rows.stripes(), rows);
}

template <class T>
void check_norm(CudaBackend& backend, Shape s) {
  using namespace kernel;
  using A = accumulate_t<T>;
  const RandomBlock<T> x(s, 1);
  const RandomBlock<T> dy(s, 2);
  const RandomBlock<T> y(s, 3);
  const RandomBlock<T> gain({1, s.cols}, 4);
  const RandomBlock<T> shift({1, s.cols}, 5);
  const RandomBlock<A> moments({s.rows, 2}, 6, 0.5, 2.0);
  const RandomBlock<A> sums({s.rows, 2}, 7);
  const A count = static_cast<A>(s.cols);
  check_body(backend, s.rows, RowSums<T>{x.view(), moments.view().sub({{0, s.rows}, {0, 1}})});
  check_body(backend, s.rows, RowDeviations<T>{x.view(), moments.view(), count + 1});
  check_body(backend, s.rows,
             NormalizeRows<T>{x.view(), gain.view(), shift.view(), moments.view(), y.view(), count + 1, A(1e-5)});
  const NormedRows<T> rows{x.view(), dy.view(), gain.view(), moments.view()};
  check_body(backend, s.rows, NormGradientSums<T>{rows, sums.view()});
  check_body(backend, s.rows, NormInputGradient<T>{rows, sums.view(), y.view(), count + 1});
  const RandomBlock<A> dgain({1, s.cols}, 8);
  const RandomBlock<A> dshift({1, s.cols}, 9);
  const NormParameterGradients<T> add{rows, dgain.view(), dshift.view()};
  check_body(backend, add.stripes(), add);
}

template <class T>
void check_softmax(CudaBackend& backend, Shape s) {
  using namespace kernel;
  using A = accumulate_t<T>;
  if (s.cols == 0) return;  // a query has a key
  for (const bool causal : {false, true}) {
    const ScoreMask mask{causal, Keep{5, 1, 0.3}, 2, 3};
    const RandomBlock<A> scores(s, 1);
    const RandomBlock<T> weights(s, 2);
    const RandomBlock<A> dw(s, 3);
    check_body(backend, s.rows, SoftmaxRows<T>{scores.view(), weights.view(), mask});
    check_body(backend, s.rows, SoftmaxRowGradients<T>{scores.view(), dw.view(), weights.view(), mask});
    if constexpr (std::same_as<T, A>) {  // the same matrix twice
      check_body(backend, s.rows, SoftmaxRows<T>{scores.view(), scores.view(), ScoreMask{causal, Keep{}, 0, 0}});
      check_body(backend, s.rows, SoftmaxRowGradients<T>{scores.view(), dw.view(), scores.view(), mask});
    }
  }
}

template <class T>
void check_classes(CudaBackend& backend, Shape s) {
  using namespace kernel;
  using A = accumulate_t<T>;
  const RandomBlock<T> logits(s, 1);
  const RandomBlock<T> out(s, 2);
  const RandomBlock<A> maximum({1, s.rows}, 3);
  const RandomBlock<A> sums({3, s.rows}, 4, 0.5, 2.0);
  const Indices targets(s.rows, 2 * s.cols + 1);
  check_body(backend, s.rows, RowMaximum<T>{logits.view(), maximum.view()});
  check_body(backend, s.rows,
             ExponentialSums<T>{logits.view(), targets.view(), maximum.view(), s.cols / 2, sums.view()});
  check_body(backend, s.rows,
             CrossEntropyGradient<T>{logits.view(), targets.view(), maximum.view(), sums.view(), s.cols / 2, 1, A(0.9),
                                     A(0.01), A(0.5), out.view()});
  const RandomBlock<A> values({2, s.rows}, 5);
  const Indices found(s.rows, 3);
  check_body(backend, s.rows, RowArgMax<T>{logits.view(), s.cols, values.view(), found.view()});
  const RandomBlock<double> totals({1, 2}, 6);
  check_body(backend, 1, SumLosses<A>{sums.view(), targets.view(), 1, 0.1, s.cols + 1, totals.view()});
  check_body(backend, s.rows, KeepLargest<A>{values.view(), found.view()});
}

template <class T>
void check_embedding(CudaBackend& backend, Shape s) {
  using namespace kernel;
  using A = accumulate_t<T>;
  const Indices ids(s.rows, 20);
  const RandomBlock<T> table({9, s.cols}, 1);
  const RandomBlock<T> rows(s, 2);
  check_body(backend, s.rows, LookUpRows<T, T>{ids.view(), table.view(), 4, rows.view()});
  check_body(backend, s.rows, LookUpRows<T, A>{ids.view(), table.view(), 4, RandomBlock<A>(s, 3).view()});
  const AddRowsById<T> add{ids.view(), rows.view(), 4, RandomBlock<A>({9, s.cols}, 4).view()};
  check_body(backend, add.stripes(), add);
}

/// `s.cols` features, three sequences, and the rows of each.
template <class T>
void check_sequences(CudaBackend& backend, Shape s) {
  using namespace kernel;
  using A = accumulate_t<T>;
  const index_t length = 4;
  const index_t count = s.rows;
  const RandomBlock<T> tokens({count * length, s.cols}, 1);
  const RandomBlock<T> pooled({count, s.cols}, 2);
  const RandomBlock<A> sum({length, s.cols}, 3);
  check_body(backend, length, SumOverSequences<T>{tokens.view(), length, sum.view()});
  check_body(backend, count, TakeFirst<T>{tokens.view(), length, pooled.view()});
  check_body(backend, count * length, PlaceFirst<T>{pooled.view(), length, tokens.view()});
  check_body(backend, count, TakeMean<T>{tokens.view(), length, pooled.view()});
  check_body(backend, count * length, PlaceMean<T>{pooled.view(), length, tokens.view()});
  const RandomBlock<T> patches({count * (length - 1), s.cols}, 4);
  check_body(backend, count * (length - 1), WithoutFirst<T>{tokens.view(), length, patches.view()});
  const RandomBlock<T> row({1, s.cols}, 5);
  const RandomBlock<T> positions({length, s.cols}, 6);
  const View<T> none;
  check_body(backend, count * length,
             AssembleTokens<T>{patches.view(), row.view(), row.view(), positions.view(), length, tokens.view()});
  check_body(backend, count * length, AssembleTokens<T>{tokens.view(), none, none, none, length, tokens.view()});
}

template <class T>
void check_patches(CudaBackend& backend, index_t images) {
  using namespace kernel;
  const PatchGeometry geometry{2, 6, 4, 3, 2};
  const RandomBlock<T> pixels({images, geometry.pixels()}, 1);
  const RandomBlock<T> patches({images * geometry.patches(), geometry.patch_pixels()}, 2);
  check_body(backend, patches.view().rows, ExtractPatches<T>{geometry, pixels.view(), patches.view()});
  check_body(backend, patches.view().rows, PlacePatches<T>{geometry, patches.view(), pixels.view()});
}

template <class A>
void check_updates(CudaBackend& backend, Shape s) {
  using namespace kernel;
  const RandomBlock<A> weight(s, 1);
  const RandomBlock<A> gradient(s, 2);
  const RandomBlock<A> first(s, 3);
  const RandomBlock<A> second(s, 4, 0.0, 2.0);
  for (const bool nesterov : {false, true}) {
    check_body(backend, s.rows,
               SgdUpdate<A>{weight.view(), gradient.view(), first.view(), A(0.1), A(0.9), A(0.01), nesterov});
  }
  const View<A> none;
  check_body(backend, s.rows, SgdUpdate<A>{weight.view(), gradient.view(), none, A(0.1), A(0), A(0.01), false});
  check_body(backend, s.rows,
             AdamUpdate<A>{weight.view(), gradient.view(), first.view(), second.view(), A(0.1), A(0.9), A(0.1), A(1.5),
                           A(0.99), A(0.01), A(2.5), A(1e-8), A(0.01), A(0.001)});
  const RandomBlock<double> sums({1, 8}, 5);
  check_body(backend, 8, AddSquares<A>{gradient.view(), sums.view()});
  const Indices bad(8, 1);
  if (!gradient.view().empty()) gradient.view()(s.rows - 1, s.cols - 1) = std::numeric_limits<A>::infinity();
  check_body(backend, 8, Unscale<A>{gradient.view(), A(0.5), bad.as_row()});
}

template <class T>
void check_all(CudaBackend& backend) {
  for (const Shape s : shapes) {
    CAPTURE(s.rows);
    CAPTURE(s.cols);
    check_elementwise<T>(backend, s);
    check_norm<T>(backend, s);
    check_softmax<T>(backend, s);
    check_classes<T>(backend, s);
    check_embedding<T>(backend, s);
    check_sequences<T>(backend, s);
  }
  check_patches<T>(backend, 3);
  check_patches<T>(backend, 0);
}

TEST_CASE_TEMPLATE("Bodies on activations give on the device what they give on the host", T, float, double, half,
                   bfloat16) {
  const test::CudaMachine machine;
  CudaBackend backend(test::small_backend());
  check_all<T>(backend);
}

TEST_CASE_TEMPLATE("Bodies of optimisers and norms do, too", A, float, double) {
  const test::CudaMachine machine;
  CudaBackend backend(test::small_backend());
  for (const Shape s : shapes) check_updates<A>(backend, s);
}

TEST_CASE("Bodies without a scalar do, too") {
  const test::CudaMachine machine;
  CudaBackend backend(test::small_backend());
  for (const index_t rows : {0, 1, 9}) {
    const Indices classes(rows, 4);
    const Indices targets(rows, 3);
    const Indices numbers(2, 100);
    check_body(backend, rows, kernel::NegateFound{classes.view()});
    check_body(backend, 1, kernel::CountHits{classes.view(), targets.view(), 1, numbers.as_row()});
    const View<index_t> found = numbers.view().sub({{0, 1}, {0, 1}});
    check_body(backend, 1, kernel::FirstOutside{classes.view(), 3, 2, true, found});
    check_body(backend, 1, kernel::FirstOutside{classes.view(), 4, 0, false, found});
  }
  check_body(backend, 1, kernel::AddUp{RandomBlock<double>({1, 77}, 1).view(), RandomBlock<double>({1, 1}, 2).view()});
}

TEST_CASE("A body is not run for a count of zero or less") {
  const test::CudaMachine machine;
  CudaBackend backend(test::small_backend());
  const kernel::AddUp untouched{View<const double>(), View<double>(nullptr, 1, 1, 1)};
  backend.for_each_index(0, untouched);
  backend.for_each_index(-1, untouched);
  backend.sync();
}

}  // namespace
}  // namespace partita
