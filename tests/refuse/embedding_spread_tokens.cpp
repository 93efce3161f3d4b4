// SPDX-License-Identifier: Apache-2.0
// Refused: an axis that cuts the vocabulary cuts the tokens first, so that gathering along it gives no block of tokens.
// expect: Embedding: the columns of table and output are cut alike
// expect: embedding_exists_for
// expect: look_up<table<RowsOver<Depth>, ColsOver<Col>>, tokens<RowsOver<Depth, Row>, ColsOver<Col>>>
#include "partita/nn/embedding.hpp"
#include "partita/partita.hpp"

using namespace partita;

using Last = Partition<Grid25D<2, 2>, RowsOver<Row>, ColsOver<Col>>;
using First = Partition<Grid25D<2, 2>, RowsOver<Depth>, ColsOver<Col>>;

template class partita::Embedding<double, Last, Summa25D<2, 2>, ThreadContext>;
#ifdef REFUSE
template class partita::Embedding<double, First, Summa25D<2, 2>, ThreadContext>;
#endif
