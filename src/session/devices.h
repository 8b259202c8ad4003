// SPDX-License-Identifier: Apache-2.0
#pragma once
// The devices of a session: native code and the loop interpreter run programs; the tensor interpreter runs graphs.
#include "session/session.h"

namespace stax::session {

std::unique_ptr<Session> make_program_session(std::shared_ptr<program::Program> program, const SessionOptions& options,
                                              double compile_ms, double load_ms,
                                              std::vector<loop::Kernel> kernels = {});
/// The interpreter of thread IR. A launch that races, leaves a buffer, or the like is an InternalError with the report.
std::unique_ptr<runtime::Device> open_sim(const program::Program& program);
std::unique_ptr<Session> make_reference_session(std::unique_ptr<tensor::Graph> graph, double compile_ms);

}  // namespace stax::session
