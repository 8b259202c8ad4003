// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device is asked to do, written down so that another driver or emulator can do it again.
#include <memory>
#include <string>

#include "program/program.h"
#include "runtime/device.h"

namespace stax::session {

/// `device`, with everything recorded in `folder`:
///   NAME.EXT              the code of each kernel version that is launched
///   buffers/N.before      bytes of buffer N (an allocation) before the first launch; of one made later: at its first use
///   buffers/N.after       after the last operation, or when it was given back
///   launches.jsonl        one line a launch, in order: {kernel, version, file, entry, grid, block, shared_bytes, arguments}, arguments in order being
///                         {buffer, offset} or {type, value}. Between them, where the host or the device moves bytes after the first launch,
///                         {write: {buffer, offset, file}} and {copy: {buffer, offset}, to: {buffer, offset}, bytes}.
/// UserError if the folder cannot be written.
std::unique_ptr<runtime::Device> log_launches(std::unique_ptr<runtime::Device> device,
                                              std::shared_ptr<const program::Program> program,
                                              const std::string& folder);

}  // namespace stax::session
