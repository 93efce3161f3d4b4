// SPDX-License-Identifier: Apache-2.0
// Messages between ranks on one device: what is sent is copied, so that a send waits for no receiver's stream.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "partita/comm/cuda_thread/work.hpp"

namespace partita {

namespace detail {
/// A message whose other side may not have been called yet.
struct CudaPendingMessage {
  CudaPendingMessage() = default;
  CudaPendingMessage(const CudaPendingMessage&) = delete;
  CudaPendingMessage& operator=(const CudaPendingMessage&) = delete;
  virtual ~CudaPendingMessage() = default;
  virtual void complete() = 0;
};
}  // namespace detail

/// A pending operation of a CudaThreadComm. That of a collective is on the streams of all ranks already: wait() returns
/// at once. That of a message waits for the call of its peer. Neither waits for a stream.
class [[nodiscard]] CudaThreadRequest {
 public:
  CudaThreadRequest() = default;
  explicit CudaThreadRequest(std::unique_ptr<detail::CudaPendingMessage> message) : message_(std::move(message)) {}

  void wait() {
    if (const auto message = std::move(message_)) message->complete();
  }

 private:
  std::unique_ptr<detail::CudaPendingMessage> message_;
};

namespace detail {

/// Frees, in the order of a stream, what was staged for a message, and forgets the message.
inline void end_message(CudaEndpoint& end, CudaMessage* message) {
  if (message->stage.data != nullptr) {
    cuda_check(cudaFreeAsync(std::exchange(message->stage.data, nullptr), end.timeline().communication()),
               "cudaFreeAsync");
  }
  const std::lock_guard lock(end.me->launch->mutex);
  end.me->launch->messages.remove_if([message](const CudaMessage& m) { return &m == message; });
}

struct CudaSend final : CudaPendingMessage {
  void complete() override { host.wait(); }

  CudaMessage* message = nullptr;  // what the request of the host sends
  ThreadRequest host;
};

template <class T>
CudaThreadRequest begin_send(const std::shared_ptr<CudaEndpoint>& end, View<const T> in, int to, int tag) {
  auto send = std::make_unique<CudaSend>();
  end->guarded([&] {
    {
      const std::lock_guard lock(end->me->launch->mutex);
      send->message = &end->me->launch->messages.emplace_back();
    }
    CudaMessage& message = *send->message;
    message.type = &type_tag<T>;
    message.stage = {nullptr, in.rows, in.cols, in.cols};
    CudaTimeline& timeline = end->timeline();
    if (!in.empty()) {
      const cudaStream_t stream = timeline.communication();
      const auto bytes = static_cast<std::size_t>(in.size()) * sizeof(T);
      timeline.before_communication({cuda_access(in)});
      cuda_check(cudaMallocAsync(&message.stage.data, bytes, stream), "cudaMallocAsync");
      copy_on_stream<T>(stream, in, view_of<T>(message.stage));
      message.ready = timeline.after_communication({cuda_access(in)});
    }
    const QuietScope quiet;
    tell_order(&message);
    send->host = end->host.send(row_view<CudaMessage* const>(&send->message, 1), to, tag);
  });
  return CudaThreadRequest(std::move(send));
}

template <class T>
struct CudaReceive final : CudaPendingMessage {
  void complete() override {
    end->guarded([this] {
      host.wait();
      learn_order(message);
      if (message->type != &type_tag<T>) {
        throw ArgumentError("ArgumentError: recv: rank " + std::to_string(from) +
                            " sent another element type than rank " + std::to_string(end->rank()) + " expects");
      }
      check_shape("recv", "what was sent", {message->stage.rows, message->stage.cols}, out.shape());
      if (!out.empty()) {
        CudaTimeline& timeline = end->timeline();
        timeline.before_communication({cuda_access(out)});
        timeline.wait_for_peer(message->ready);
        copy_on_stream<T>(timeline.communication(), view_of<const T>(message->stage), out);
        timeline.after_communication({cuda_access(out)});
      }
      end_message(*end, message);
      if (from != end->rank()) end->me->count(1, out.size(), sizeof(T));
    });
  }

  std::shared_ptr<CudaEndpoint> end;
  View<T> out;
  int from = 0;
  CudaMessage* message = nullptr;
  ThreadRequest host;
};

template <class T>
CudaThreadRequest begin_receive(const std::shared_ptr<CudaEndpoint>& end, View<T> out, int from, int tag) {
  auto receive = std::make_unique<CudaReceive<T>>();
  receive->end = end;
  receive->out = out;
  receive->from = from;
  const QuietScope quiet;
  receive->host = end->host.recv(row_view(&receive->message, 1), from, tag);
  return CudaThreadRequest(std::move(receive));
}

}  // namespace detail
}  // namespace partita
