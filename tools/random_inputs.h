// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random inputs for a graph, for commands that need some.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "session/session.h"

namespace stax::tool {

/// Normal floats, integers of 0 and 1 (indices that are in range more often than not); one extent for each symbol: `dims` by name where it has it, others
/// from their range, at least 1 and at most 24 if the range allows. UserError for a sequence.
std::vector<runtime::Item> random_inputs(tensor::Graph& graph, std::mt19937_64& rng,
                                         const std::map<std::string, int64_t>& dims = {});

/// Draws until `session` takes what was drawn: extents may have to be related, indices in range. UserError where it never does.
std::vector<runtime::Item> legal_inputs(tensor::Graph& graph, session::Session& session, std::mt19937_64& rng,
                                        const std::map<std::string, int64_t>& dims = {});

}  // namespace stax::tool
