// SPDX-License-Identifier: Apache-2.0
// Refused: a vocabulary-parallel embedding whose vocabulary nothing cuts.
// expect: VocabParallelEmbedding: no axis cuts the table's rows
// expect: embedding_exists_for
// expect: look_up<table<RowsOver<>, ColsOver<Tp>>, tokens<RowsOver<>, ColsOver<Tp>>>
#include "partita/nn/embedding.hpp"
#include "partita/partita.hpp"

using namespace partita;

using Cut = VocabParallelEmbedding<double, RowShard<2>, Replicated<2>, ThreadContext>;
#ifdef REFUSE
using Uncut = VocabParallelEmbedding<double, ColumnShard<2>, ColumnShard<2>, ThreadContext>;
#endif
