// SPDX-License-Identifier: Apache-2.0
// Values between the device's memory and the host's.
#include <cstring>

#include "runtime/executor.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

void Context::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) shared_.device->copy(to, from, static_cast<size_t>(bytes));
}

void* Context::allocate_owned(ValueRef v, int64_t bytes, std::string_view source) {
  owners_[v] = shared_.memory->allocate(bytes, source);
  host_[v] = nullptr;
  return data_[v] = owners_[v].get();
}

void Context::set_place(ValueRef v, Place p) {
  data_[v] = p.data;
  owners_[v] = std::move(p.owner);
  host_[v] = p.host;
}

const void* Context::host_data(ValueRef v) {
  if (shared_.unified) return data_[v];
  if (host_[v]) return host_[v];
  int64_t bytes = count_of(v) * static_cast<int64_t>(ir::byte_size(program_.values[v].dtype));
  host_operands_.push_back(shared_.host_memory->allocate(bytes, program_.values[v].name));
  look_for_faults();
  if (bytes > 0) shared_.device->copy_out(host_operands_.back().get(), data_[v], static_cast<size_t>(bytes));
  return host_operands_.back().get();
}

void* Context::host_result(ValueRef v, int64_t bytes) {
  if (shared_.unified) return data_[v];
  host_results_.push_back({v, shared_.host_memory->allocate(bytes, program_.values[v].name), bytes});
  return host_results_.back().memory.get();
}

void Context::finish_host_step() {
  for (const HostResult& r : host_results_)
    if (r.bytes > 0) shared_.device->copy_in(data_[r.value], r.memory.get(), static_cast<size_t>(r.bytes));
  host_results_.clear();
  host_operands_.clear();
}

void Context::look_for_faults() {
  if (!launched_ || seen_faults_.empty()) return;
  launched_ = false;
  size_t bytes = seen_faults_.size() * sizeof(Fault);
  shared_.device->copy_out(seen_faults_.data(), faults_.get(), bytes);
  for (size_t k = 0; k < seen_faults_.size(); ++k) {
    if (!seen_faults_[k].failed) continue;
    Fault fault = seen_faults_[k];
    seen_faults_.assign(seen_faults_.size(), {});
    shared_.device->copy_in(faults_.get(), seen_faults_.data(), bytes);
    raise(fault, shared_.launches[k]->source);
  }
}

void Context::raise(const Fault& fault, const std::string& source) const {
  user_error("{}: index {} is out of range for an extent of {}; indices must be in [{}, {}]", source, fault.index,
             fault.extent, -fault.extent, fault.extent - 1);
}

void Context::take_tensor(ValueRef v, Tensor& t) {
  t.dtype = program_.values[v].dtype;
  extents_of(v, t.extents);
  if (shared_.unified && owners_[v]) {
    t.owner = owners_[v];
    t.data = data_[v];
    return;
  }
  int64_t bytes = count_of(v) * static_cast<int64_t>(ir::byte_size(t.dtype));
  t.owner = shared_.host_memory->allocate(bytes, program_.values[v].name);
  t.data = t.owner.get();
  if (bytes == 0) return;
  if (!shared_.unified) look_for_faults();
  if (host_[v])
    std::memcpy(t.owner.get(), host_[v], static_cast<size_t>(bytes));
  else
    shared_.device->copy_out(t.owner.get(), data_[v], static_cast<size_t>(bytes));
}

void Context::set_tensor(ValueRef v, const Tensor& t, std::string_view source) {
  if (shared_.unified) {
    set_place(v, {const_cast<void*>(t.data), t.owner, nullptr});
    return;
  }
  allocate_owned(v, static_cast<int64_t>(t.bytes()), source);
  if (t.bytes() > 0) shared_.device->copy_in(data_[v], t.data, t.bytes());
}

}  // namespace stax::runtime
