// SPDX-License-Identifier: Apache-2.0
#pragma once
// Faults on purpose. The linker puts a function of ours in front of a pass (--wrap, see tests/CMakeLists.txt), so that the compiler under test is the one that
// ships: each lets the pass do its work and then, where its fault is planted, damages the result.
#include <string>
#include <vector>

namespace stax::bisect {

struct Fault {
  const char* name;
  const char* pass;  // what bisect has to name
  const char* level;
  const char* device = "cpu";
};
/// All that can be planted.
const std::vector<Fault>& faults();
/// Plants the fault of that name; empty: none.
void plant(const std::string& name);
/// How often the planted one has damaged something.
int damages();

}  // namespace stax::bisect
