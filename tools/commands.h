// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of the `stax` program. Each registers its flags and, when chosen, runs; the result is the exit status: 0 done, 1 the user's
// fault, 2 usage, 70 a fault of Stax's.
#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bisect/bisect.h"
#include "session/session.h"

namespace stax::tool {

using Action = std::function<int()>;

void add_run(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_bench(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_compile(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_dump(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_report(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_doctor(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_verify(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_bisect(CLI::App& app, std::map<CLI::App*, Action>& actions);
void add_replay(CLI::App& app, std::map<CLI::App*, Action>& actions);
/// After all others, whose words it knows.
void add_completion(CLI::App& app, std::map<CLI::App*, Action>& actions);

/// Prints what bisect found and writes its repro.
void report_finding(const std::string& what, const bisect::Finding& finding);

/// UserError where a file to be written is one of those that are read.
void refuse_to_overwrite(const std::string& output, const std::string& model, std::vector<std::string> inputs = {});

/// "batch=1..8", "batch=4", several of them; UserError otherwise.
std::map<std::string, frontend::DimRange> parse_dims(const std::vector<std::string>& texts);
/// What code a device is given: of the commands that run or bisect.
void add_emit(CLI::App* command, std::string& emit);
/// "seq=128,batch=4".
std::map<std::string, int64_t> parse_at(const std::string& text);

}  // namespace stax::tool
