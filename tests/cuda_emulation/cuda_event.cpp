// SPDX-License-Identifier: Apache-2.0
// Events of the CUDA runtime. A record makes a new generation; a wait takes the latest one at the call.
#include "cuda_emulation/api.hpp"

namespace partita::cuda_emulation {
namespace {

CUevent_st* event_of(Machine& m, cudaEvent_t handle, const char* who) {
  const auto found = m.events.find(handle);
  if (found != m.events.end()) return found->second.get();
  m.report(Finding::misuse, std::string(who) + ": no such event, or one that was destroyed");
  return nullptr;
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (m.options.devices == 0) return cudaErrorNoDevice;
    auto made = std::make_unique<CUevent_st>();
    made->device = current_device();
    made->timed = (flags & cudaEventDisableTiming) == 0;
    *event = made.get();
    m.events[*event] = std::move(made);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return enter<cudaError_t>(__func__, Kind::release, [&](Machine& m, Lock&) {
    if (event_of(m, handle, "cudaEventDestroy") == nullptr) return cudaErrorInvalidResourceHandle;
    m.events.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    CUevent_st* event = event_of(m, handle, "cudaEventRecord");
    Operation op;
    op.stream = m.stream_of(stream, "cudaEventRecord");
    if (event == nullptr || op.stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->device != op.stream->device) {
      m.report(Finding::wrong_device,
               "cudaEventRecord: an event of device " + std::to_string(event->device) + " on " + op.stream->label);
      return cudaErrorInvalidResourceHandle;
    }
    op.name = "cudaEventRecord";
    op.caller = m.order.host_epoch();
    auto time = std::make_shared<std::chrono::steady_clock::time_point>();
    op.work = [time](Lock&) { *time = std::chrono::steady_clock::now(); };
    event->time = time;
    event->record = m.enqueue(std::move(op));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    CUevent_st* event = event_of(m, event_handle, "cudaStreamWaitEvent");
    Operation op;
    op.stream = m.stream_of(handle, "cudaStreamWaitEvent");
    if (event == nullptr || op.stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (m.faults.drops_wait(current_device()) || event->record == nullptr) return cudaSuccess;
    if (!m.order.host().covers(event->record->caller)) {
      m.report(Finding::race, "cudaStreamWaitEvent on " + op.stream->label + " takes a record on " +
                                  event->record->stream->label +
                                  " that another host thread made, and no order relates the two threads");
    }
    op.name = "cudaStreamWaitEvent";
    op.after.push_back(event->record);
    m.enqueue(std::move(op));
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return enter<cudaError_t>(__func__, Kind::query, [&](Machine& m, Lock&) {
    CUevent_st* event = event_of(m, handle, "cudaEventQuery");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return m.query(event->record) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    CUevent_st* event = event_of(m, handle, "cudaEventSynchronize");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    m.synchronise(lock, std::shared_ptr<Operation>(event->record));
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    CUevent_st* a = event_of(m, start, "cudaEventElapsedTime");
    CUevent_st* b = event_of(m, end, "cudaEventElapsedTime");
    if (a == nullptr || b == nullptr) return cudaErrorInvalidResourceHandle;
    if (!a->timed || !b->timed || a->record == nullptr || b->record == nullptr) return cudaErrorInvalidResourceHandle;
    if (!m.query(a->record) || !m.query(b->record)) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(*b->time - *a->time).count();
    return cudaSuccess;
  });
}
