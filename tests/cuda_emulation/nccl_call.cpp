// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/nccl_call.hpp"

namespace partita::cuda_emulation {
namespace {

const char* type_name(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "int8";
    case ncclUint8:
      return "uint8";
    case ncclInt32:
      return "int32";
    case ncclUint32:
      return "uint32";
    case ncclInt64:
      return "int64";
    case ncclUint64:
      return "uint64";
    case ncclFloat16:
      return "float16";
    case ncclFloat32:
      return "float32";
    case ncclFloat64:
      return "float64";
    case ncclBfloat16:
      return "bfloat16";
    default:
      return "of an unknown type";
  }
}

const char* op_name(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return "sum";
    case ncclProd:
      return "product";
    case ncclMax:
      return "maximum";
    case ncclMin:
      return "minimum";
    case ncclAvg:
      return "average";
    default:
      return "unknown operator";
  }
}

bool has_root(NcclKind kind) {
  return kind == NcclKind::broadcast || kind == NcclKind::reduce || kind == NcclKind::gather ||
         kind == NcclKind::scatter;
}

const char* offset(const void* p, std::size_t bytes) { return static_cast<const char*>(p) + bytes; }

}  // namespace

const char* NcclCall::name() const {
  switch (kind) {
    case NcclKind::broadcast:
      return "ncclBroadcast";
    case NcclKind::reduce:
      return "ncclReduce";
    case NcclKind::all_reduce:
      return "ncclAllReduce";
    case NcclKind::reduce_scatter:
      return "ncclReduceScatter";
    case NcclKind::all_gather:
      return "ncclAllGather";
    case NcclKind::all_to_all:
      return "ncclAlltoAll";
    case NcclKind::gather:
      return "ncclGather";
    case NcclKind::scatter:
      return "ncclScatter";
    case NcclKind::send:
      return "ncclSend";
    case NcclKind::recv:
      return "ncclRecv";
    case NcclKind::split:
      return "ncclCommSplit";
  }
  return "an unknown operation";
}

std::string NcclCall::text() const {
  std::string s = name();
  if (kind == NcclKind::split) return s;
  s += "(" + std::to_string(count) + " " + type_name(type);
  if (reduces()) s += std::string(", ") + op_name(op);
  if (has_root(kind)) s += ", root " + std::to_string(root);
  if (is_message()) s += (kind == NcclKind::send ? ", to " : ", from ") + std::to_string(root);
  return s + ")";
}

bool NcclCall::matches(const NcclCall& other) const {
  if (is_message() && other.is_message()) return count == other.count && type == other.type;
  if (kind != other.kind) return false;
  if (kind == NcclKind::split) return true;
  return count == other.count && type == other.type && (!reduces() || op == other.op) &&
         (!has_root(kind) || root == other.root);
}

std::size_t NcclCall::bytes() const { return count * nccl_size_of(type); }

std::vector<Rectangle> NcclCall::sent(int rank, int size) const {
  const std::size_t one = bytes();
  const std::size_t all = one * static_cast<std::size_t>(size);
  switch (kind) {
    case NcclKind::broadcast:
      return rank == root ? std::vector<Rectangle>{{send, one}} : std::vector<Rectangle>{};
    case NcclKind::scatter:
      return rank == root ? std::vector<Rectangle>{{send, all}} : std::vector<Rectangle>{};
    case NcclKind::reduce:
    case NcclKind::all_reduce:
    case NcclKind::all_gather:
    case NcclKind::gather:
    case NcclKind::send:
      return {{send, one}};
    case NcclKind::reduce_scatter:
    case NcclKind::all_to_all:
      return {{send, all}};
    default:
      return {};
  }
}

std::vector<Rectangle> NcclCall::received(int rank, int size) const {
  const std::size_t one = bytes();
  const auto n = static_cast<std::size_t>(size);
  const auto r = static_cast<std::size_t>(rank);
  switch (kind) {
    case NcclKind::broadcast:
      return rank == root && recv == send ? std::vector<Rectangle>{} : std::vector<Rectangle>{{recv, one}};
    case NcclKind::reduce:
      return rank == root ? std::vector<Rectangle>{{recv, one}} : std::vector<Rectangle>{};
    case NcclKind::gather:
      if (rank != root) return {};
      [[fallthrough]];
    case NcclKind::all_gather:
      if (send != offset(recv, r * one)) return {{recv, n * one}};
      return {{recv, r * one}, {offset(recv, (r + 1) * one), (n - r - 1) * one}};
    case NcclKind::scatter:
      return rank == root && recv == offset(send, r * one) ? std::vector<Rectangle>{}
                                                           : std::vector<Rectangle>{{recv, one}};
    case NcclKind::all_reduce:
    case NcclKind::reduce_scatter:
    case NcclKind::recv:
      return {{recv, one}};
    case NcclKind::all_to_all:
      return {{recv, n * one}};
    default:
      return {};
  }
}

std::string NcclCall::overlap_error(int rank, int size) const {
  const std::size_t one = bytes();
  const bool in_place =
      ((kind == NcclKind::all_reduce || kind == NcclKind::reduce) && send == recv) ||
      (kind == NcclKind::reduce_scatter && recv == offset(send, static_cast<std::size_t>(rank) * one));
  if (in_place) return {};
  for (const Rectangle& s : sent(rank, size)) {
    for (const Rectangle& r : received(rank, size)) {
      if (overlap(s, r)) return text() + ": send and receive buffers overlap, and are not in place";
    }
  }
  return {};
}

bool NcclCall::receives_from(int index, int other) const {
  if (index == other) return false;
  switch (kind) {
    case NcclKind::send:
    case NcclKind::recv:
      return index == 1;
    case NcclKind::broadcast:
    case NcclKind::scatter:
      return other == root;
    case NcclKind::reduce:
    case NcclKind::gather:
      return index == root;
    case NcclKind::split:
      return false;
    default:
      return true;
  }
}

}  // namespace partita::cuda_emulation
