// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "embed/engine.h"
#include "session/session.h"

namespace stax::embed {

/// A session as what a Model runs.
std::shared_ptr<Engine> engine_of(std::unique_ptr<session::Session> session, const std::string& name);

}  // namespace stax::embed
