// SPDX-License-Identifier: Apache-2.0
#include "compile/repro.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "support/debug.h"
#include "support/error.h"
#include "support/lexer.h"

namespace stax::compile {
namespace {

constexpr std::string_view kHead = "stax_repro";

std::string_view without_comments(std::string_view text) {
  for (;;) {
    size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    text.remove_prefix(first);
    if (!text.starts_with("//")) return text;
    size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
}

}  // namespace

bool is_repro(std::string_view first_bytes) { return without_comments(first_bytes).starts_with(kHead); }

std::string print(const Repro& r) {
  std::string text = std::string(kHead) + " 1\n";
  for (const std::string& note : r.notes) text += "// " + note + "\n";
  switch (r.kind) {
    case Repro::Kind::kPass: text += "pass " + r.name; break;
    case Repro::Kind::kKernel: text += "kernel " + r.name; break;
    case Repro::Kind::kSession: text += "session " + r.name; break;
    case Repro::Kind::kExpression: text += "expression " + r.name; break;
  }
  if (r.version) text += " version " + std::to_string(*r.version);
  text += "\nfault " + spell_string(r.fault) + "\n";
  if (!r.disable.empty()) text += "disable " + spell_string(r.disable) + "\n";
  if (!r.target.empty()) text += "target " + spell_string(r.target) + "\n";
  if (!r.device.empty()) text += "device " + spell_string(r.device) + "\n";
  if (!r.emit.empty()) text += "emit " + spell_string(r.emit) + "\n";
  if (!r.inputs.empty()) text += "inputs\n" + r.inputs;
  for (const std::string& inputs : r.more_inputs) text += "inputs\n" + inputs;
  return text + "model\n" + r.model;
}

Repro parse_repro(const std::string& text) {
  Repro r;
  // Everything up to the first graph is a line a thing.
  std::istringstream lines(text);
  std::string line, head;
  std::vector<std::string> calls(1);
  enum class In { kHead, kInputs, kModel } in = In::kHead;
  while (std::getline(lines, line)) {
    if (in == In::kHead && line.starts_with("// ")) {
      r.notes.push_back(line.substr(3));
    } else if (in != In::kModel && line == "inputs") {
      if (in == In::kInputs) calls.emplace_back();
      in = In::kInputs;
    } else if (in != In::kModel && line == "model") {
      in = In::kModel;
    } else {
      (in == In::kHead ? head : in == In::kInputs ? calls.back() : r.model) += line + "\n";
    }
  }
  r.inputs = calls[0];
  r.more_inputs.assign(calls.begin() + 1, calls.end());
  Lexer lexer(head, "repro");
  lexer.expect(kHead);
  if (lexer.expect_integer() != 1) lexer.error("this version of repro files is not known");
  if (lexer.accept("kernel"))
    r.kind = Repro::Kind::kKernel;
  else if (lexer.accept("session"))
    r.kind = Repro::Kind::kSession;
  else if (lexer.accept("expression"))
    r.kind = Repro::Kind::kExpression;
  else
    lexer.expect("pass");
  r.name = lexer.expect_identifier();
  if (lexer.accept("version")) {
    int64_t version = lexer.expect_integer();
    if (version < 0 || version > 1000) lexer.error("this is no version");
    r.version = static_cast<uint32_t>(version);
  }
  lexer.expect("fault");
  r.fault = lexer.expect_string();
  if (lexer.accept("disable")) r.disable = lexer.expect_string();
  if (lexer.accept("target")) r.target = lexer.expect_string();
  if (lexer.accept("device")) r.device = lexer.expect_string();
  if (lexer.accept("emit")) r.emit = lexer.expect_string();
  lexer.expect_end();
  if (in != In::kModel) user_error("repro: there is no line `model` with a graph behind it");
  return r;
}

std::string write_repro(const Repro& repro) {
  namespace fs = std::filesystem;
  static std::atomic<int> number{0};
  std::string name = fmt::format("stax-repro-{}-{}", ::getpid(), repro.name);
  if (int n = number++) name += "-" + std::to_string(n);
  name += ".stax";
  std::error_code error;
  fs::path path;
  for (const fs::path& folder : {fs::path(debug_options().repro_dir), fs::temp_directory_path(error)}) {
    path = folder / name;
    const fs::path half = path.string() + ".part";
    std::ofstream out(half);
    out << print(repro) << std::flush;
    bool written = out.good();
    out.close();
    if (written) fs::rename(half, path, error);
    if (written && !error) return path.string();
    fs::remove(half, error);
  }
  return "(no repro: " + path.string() + " cannot be written)";
}

}  // namespace stax::compile
