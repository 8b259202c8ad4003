// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "commands.h"
#include "support/error.h"

namespace stax::tool {
namespace {

int64_t number(const std::string& text, const std::string& whole) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    user_error("'{}': '{}' is no extent; write NAME=N or NAME=LOW..HIGH, such as batch=1..8", whole, text);
  return std::stoll(text);
}

}  // namespace

void refuse_to_overwrite(const std::string& output, const std::string& model, std::vector<std::string> inputs) {
  std::error_code none;
  inputs.push_back(model);
  for (const std::string& file : inputs)
    if (std::filesystem::equivalent(output, file, none))
      user_error("'{}' would overwrite '{}', which is read; give another name", output, file);
}

void add_emit(CLI::App* command, std::string& emit) {
  command->add_option("--emit", emit, "code for --device cuda: ptx (the default) or cuda (CUDA C++, compiled by NVRTC)")
      ->check(CLI::IsMember({"ptx", "cuda"}));
}

std::map<std::string, frontend::DimRange> parse_dims(const std::vector<std::string>& texts) {
  std::map<std::string, frontend::DimRange> dims;
  for (const std::string& text : texts) {
    size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      user_error("--dim '{}' has no '='; write NAME=N or NAME=LOW..HIGH, such as batch=1..8", text);
    std::string name = text.substr(0, equals), range = text.substr(equals + 1);
    frontend::DimRange r;
    size_t dots = range.find("..");
    r.lo = number(range.substr(0, dots), text);
    r.hi = dots == std::string::npos ? r.lo : number(range.substr(dots + 2), text);
    if (r.lo > r.hi)
      user_error("--dim '{}': the range of '{}' ends before it begins ({} > {})", text, name, r.lo, r.hi);
    if (!dims.emplace(name, r).second) user_error("--dim '{}' is given twice", name);
  }
  return dims;
}

std::map<std::string, int64_t> parse_at(const std::string& text) {
  std::map<std::string, int64_t> at;
  for (size_t start = 0; start < text.size();) {
    size_t comma = text.find(',', start);
    std::string part = text.substr(start, comma == std::string::npos ? comma : comma - start);
    size_t equals = part.rfind('=');
    if (equals == std::string::npos) user_error("--at '{}': '{}' has no '='; write NAME=N,NAME=N", text, part);
    at[part.substr(0, equals)] = number(part.substr(equals + 1), text);
    start = comma == std::string::npos ? text.size() : comma + 1;
  }
  return at;
}

}  // namespace stax::tool
