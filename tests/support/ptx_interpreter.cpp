// SPDX-License-Identifier: Apache-2.0
#include "support/ptx_interpreter.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/ptx_machine.h"

namespace stax::testing {

PtxProgram::Impl::Impl(const std::string& text) {
  std::string code = std::regex_replace(text, std::regex("//[^\n]*"), "");
  code = std::regex_replace(code, std::regex(R"(\.(version|target|address_size)[^\n]*)"), "");
  size_t at = 0;
  std::string word;
  while (at < code.size()) {
    const size_t end = code.find_first_of(";:{}", at);
    if (end == std::string::npos) break;
    std::string piece = trim(code.substr(at, end - at));
    if (code[end] == ':') {
      labels[piece] = static_cast<int>(steps.size());
      at = end + 1;
      continue;
    }
    if (code[end] == '{' && (piece.find(".entry") != std::string::npos)) {
      entry(piece);
      at = end + 1;
      continue;
    }
    if (code[end] == '}') {
      at = end + 1;
      continue;
    }
    const size_t stop = code.find(';', at);
    if (stop == std::string::npos) fail("no ; after " + piece.substr(0, 60));
    statement(trim(code.substr(at, stop - at)));
    at = stop + 1;
  }
  for (Step& s : steps)
    if (s.target == -2) {
      const auto found = labels.find(s.text.substr(s.text.rfind(' ') + 1));
      if (found == labels.end()) fail("no label for " + s.text);
      s.target = found->second;
    }
  if (!is_entry) fail("no entry");
}

void PtxProgram::Impl::entry(const std::string& piece) {
  is_entry = true;
  const size_t open = piece.find('('), close = piece.rfind(')');
  size_t number = 0;
  for (const std::string& p : split(piece.substr(open + 1, close - open - 1), ',')) {
    std::smatch m;
    const std::string text = trim(p);
    if (text.empty()) continue;
    if (!std::regex_match(text, m, std::regex(R"(\.param\s+\.([a-z]+)(\d+)\s+([\w$]+))"))) fail("parameter " + text);
    parameters[m[3]] = {number++, std::stoi(m[2])};
  }
  std::smatch m;
  const std::string rest = piece.substr(close + 1);
  if (std::regex_search(rest, m, std::regex(R"(\.reqntid\s+(\d+),\s*1,\s*1)"))) block = std::stoi(m[1]);
}

void PtxProgram::Impl::statement(const std::string& text) {
  std::smatch m;
  static const std::regex reg(R"(\.reg\s+(\.\w+)\s+(%\w+)<(\d+)>)");
  static const std::regex array(
      R"((?:\.extern\s+)?\.(shared|local|const)\s+\.align\s+(\d+)\s+\.b(\d+)\s+([\w$]+)\[(\d*)\](?:\s*=\s*\{([^}]*)\})?)");
  if (std::regex_match(text, m, reg)) {
    for (int i = 0; i < std::stoi(m[3]); ++i)
      registers.emplace(std::string(m[2]) + std::to_string(i), registers.size());
    return;
  }
  if (std::regex_match(text, m, array)) {
    declare(m);
    return;
  }
  if (text.starts_with(".pragma")) return;
  if (!text.empty() && text[0] == '.') fail("directive " + text);
  instruction(text);
}

void PtxProgram::Impl::declare(const std::smatch& m) {
  const std::string space = m[1], name = m[4], count = m[5];
  const size_t bytes = count.empty() ? 0 : std::stoul(count) * std::stoul(m[3]) / 8, align = std::stoul(m[2]);
  const auto place = [&](size_t& size, uint64_t base) {
    size = (size + align - 1) / align * align;
    symbols[name] = {Value::Kind::kSymbol, base + size};
    size += bytes;
  };
  if (space == "shared" && count.empty()) {
    symbols[name] = {Value::Kind::kDynamicShared, 0};
  } else if (space == "shared") {
    place(static_shared, kSharedBase);
  } else if (space == "local") {
    place(local, kLocalBase);
  } else {
    symbols[name] = {Value::Kind::kSymbol, kConstBase + constants.size()};
    for (const std::string& word : split(m[6], ',')) {
      const auto value = static_cast<uint32_t>(std::stoul(trim(word)));
      constants.insert(constants.end(), reinterpret_cast<const uint8_t*>(&value),
                       reinterpret_cast<const uint8_t*>(&value) + 4);
    }
  }
}

int PtxProgram::Impl::reg(const std::string& s) const {
  const auto found = registers.find(trim(s));
  if (found == registers.end()) fail("register " + s);
  return static_cast<int>(found->second);
}

Value PtxProgram::Impl::value(const std::string& given) const {
  const std::string s = trim(given);
  if (s.empty()) fail("an empty operand");
  if (s[0] == '%') {
    static const std::map<std::string, uint64_t> special = {
        {"%tid.x", 0}, {"%ctaid.x", 1}, {"%ctaid.y", 2}, {"%ctaid.z", 3}, {"%laneid", 4}};
    if (const auto found = special.find(s); found != special.end()) return {Value::Kind::kSpecial, found->second};
    return {Value::Kind::kRegister, static_cast<uint64_t>(reg(s))};
  }
  if (s.starts_with("0f")) return {Value::Kind::kConstant, std::stoull(s.substr(2), nullptr, 16)};
  if (s.starts_with("0d")) return {Value::Kind::kConstant, std::stoull(s.substr(2), nullptr, 16)};
  if (const auto found = symbols.find(s); found != symbols.end()) {
    if (found->second.kind != Value::Kind::kDynamicShared) return found->second;
    // Behind the static; that is declared in front of all instructions.
    return {Value::Kind::kConstant, kSharedBase + (static_shared + 15) / 16 * 16};
  }
  size_t used = 0;
  const int64_t number = s[0] == '-' ? std::stoll(s, &used) : static_cast<int64_t>(std::stoull(s, &used));
  if (used != s.size()) fail("operand " + s);
  return {Value::Kind::kConstant, static_cast<uint64_t>(number)};
}

Address PtxProgram::Impl::address(const std::string& given) const {
  const std::string s = trim(given);
  if (s.front() != '[' || s.back() != ']') fail("address " + s);
  const std::string inner = s.substr(1, s.size() - 2);
  // [a + b] in the form that ptxas takes: a negative offset is added, too.
  const size_t sign = inner.find('+');
  if (sign == std::string::npos) return {value(inner), 0};
  return {value(inner.substr(0, sign)), std::stoll(inner.substr(sign + 1))};
}

std::vector<std::string> PtxProgram::Impl::group(const std::string& given) const {
  const std::string s = trim(given);
  if (s.front() != '{') return {s};
  return split(s.substr(1, s.size() - 2), ',');
}

void PtxProgram::Impl::instruction(const std::string& text) {
  Step step;
  step.text = text;
  std::string rest = text;
  if (rest[0] == '@') {
    const size_t space = rest.find(' ');
    step.negated = rest[1] == '!';
    step.predicate = reg(rest.substr(step.negated ? 2 : 1, space - (step.negated ? 2 : 1)));
    rest = trim(rest.substr(space));
  }
  const size_t space = rest.find_first_of(" \t");
  Operation o;
  const std::string opcode = rest.substr(0, space);
  std::string piece;
  for (char c : opcode + ".") {
    if (c != '.') {
      piece += c;
      continue;
    }
    o.parts.push_back(piece);
    Type t;
    if (parse_type(piece, t)) o.types.push_back(t);
    piece.clear();
  }
  if (space != std::string::npos)
    for (const std::string& s : split(rest.substr(space), ',')) o.operands.push_back(trim(s));
  decode(o, step);
  steps.push_back(std::move(step));
}

void PtxProgram::Impl::set(Thread& t, int r, uint64_t raw, int bits) {
  t.registers[static_cast<size_t>(r)] = raw & mask_of(bits);
}

void PtxProgram::Impl::decode(const Operation& o, Step& s) {
  const std::string& name = o.parts[0];
  if (name == "ret" || name == "exit")
    s.exit = true;
  else if (name == "bra")
    s.target = -2;
  else if (name == "bar")
    s.meet = Meet::kBlock;
  else if (name == "shfl" || name == "vote" || name == "mma" || name == "ldmatrix")
    decode_warp(o, s);
  else if (name == "ld")
    decode_load(o, s);
  else if (name == "st")
    decode_store(o, s);
  else if (name == "red" || name == "atom")
    decode_atomic(o, s);
  else if (name == "cp")
    decode_copy(o, s);
  else if (name == "cvt")
    decode_convert(o, s);
  else if (name == "mov" && o.operands[0][0] == '{')
    decode_split(o, s);
  else if (name == "mov" && o.operands[1][0] == '{')
    decode_join(o, s);
  else
    decode_arithmetic(o, s);
}

void PtxProgram::Impl::advance(Thread& t) const {
  int64_t budget = 200'000'000;
  while (t.at < steps.size()) {
    const Step& s = steps[t.at];
    const bool on = s.predicate < 0 || (t.registers[static_cast<size_t>(s.predicate)] & 1) != (s.negated ? 1U : 0U);
    if (--budget == 0) fail("no end of a loop");
    if (!on) {
      if (s.meet != Meet::kNone) fail("a thread passes by: " + s.text);
      ++t.at;
      continue;
    }
    if (s.exit) {
      t.done = true;
      return;
    }
    if (s.meet != Meet::kNone) {
      t.waits = s.meet;
      return;
    }
    if (s.target >= 0) {
      t.at = static_cast<size_t>(s.target);
      continue;
    }
    try {
      s.run(t);
    } catch (const std::runtime_error& e) {
      throw std::runtime_error(std::string(e.what()) + " in `" + s.text + "` of thread " + std::to_string(t.number));
    }
    ++t.at;
  }
  t.done = true;
}

void PtxProgram::Impl::run_block(Block& block, std::mt19937_64& random) const {
  const int count = block.launch->block;
  std::vector<Thread> threads(static_cast<size_t>(count));
  for (int k = 0; k < count; ++k) {
    Thread& t = threads[static_cast<size_t>(k)];
    t.number = k;
    t.block = &block;
    t.registers.resize(registers.size());
    for (uint64_t& r : t.registers) r = random();
    t.local.resize(local);
    for (uint8_t& b : t.local) b = static_cast<uint8_t>(random());
  }
  std::vector<size_t> order(threads.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  for (;;) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t k : order)
      if (!threads[k].done && threads[k].waits == Meet::kNone) advance(threads[k]);
    bool moved = false;
    for (size_t first = 0; first < threads.size(); first += 32) moved = meet_warp(threads, first) || moved;
    if (moved) continue;
    const size_t done =
        static_cast<size_t>(std::count_if(threads.begin(), threads.end(), [](const Thread& t) { return t.done; }));
    if (done == threads.size()) return;
    for (const Thread& t : threads)
      if (t.done || t.waits != Meet::kBlock || t.at != threads[0].at)
        fail("not all threads come to " + steps[threads[0].done ? threads.back().at : threads[0].at].text);
    for (Thread& t : threads) t.waits = Meet::kNone, ++t.at;
  }
}

bool PtxProgram::Impl::meet_warp(std::vector<Thread>& threads, size_t first) const {
  std::vector<Thread*> lanes(32, nullptr);
  size_t waiting = 0, present = 0;
  for (size_t k = 0; k < 32 && first + k < threads.size(); ++k) {
    lanes[k] = &threads[first + k];
    ++present;
    waiting += lanes[k]->waits == Meet::kWarp ? 1 : 0;
  }
  if (waiting == 0) return false;
  for (size_t k = 0; k < present; ++k)
    if (lanes[k]->done || lanes[k]->waits != Meet::kWarp || lanes[k]->at != lanes[0]->at)
      fail("a warp parts at " + steps[lanes[0]->at].text);
  steps[lanes[0]->at].run_warp(lanes);
  for (size_t k = 0; k < present; ++k) lanes[k]->waits = Meet::kNone, ++lanes[k]->at;
  return true;
}

PtxProgram::PtxProgram(const std::string& text) : impl_(std::make_unique<Impl>(text)) {}
PtxProgram::~PtxProgram() = default;

void PtxProgram::run(const PtxLaunch& launch) const {
  if (impl_->block != 0 && impl_->block != launch.block) fail("launched with another number of threads");
  if (launch.arguments.size() != impl_->parameters.size()) fail("launched with another number of arguments");
  std::mt19937_64 random(launch.seed);
  const size_t fixed = (impl_->static_shared + 15) / 16 * 16;
  const Impl& impl = *impl_;
  for (int z = 0; z < launch.grid[2]; ++z)
    for (int y = 0; y < launch.grid[1]; ++y)
      for (int x = 0; x < launch.grid[0]; ++x) {
        Block block;
        block.index[0] = x, block.index[1] = y, block.index[2] = z;
        block.launch = &launch;
        block.constants = &impl.constants;
        block.random = &random;
        block.shared.resize(fixed + launch.dynamic_shared);
        for (uint8_t& b : block.shared) b = static_cast<uint8_t>(random());
        impl.run_block(block, random);
      }
}

// --- ptxas ----------------------------------------------------------------------------------------------------------------

std::string find_ptxas() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH"))
    for (const std::string& folder : split(path, ':')) folders.push_back(folder);
  const char* home = std::getenv("CUDA_HOME");
  folders.push_back(std::string(home != nullptr ? home : "/usr/local/cuda") + "/bin");
  for (const std::string& folder : folders)
    if (!folder.empty() && ::access((folder + "/ptxas").c_str(), X_OK) == 0) return folder + "/ptxas";
  return "";
}

Assembled assemble(const std::string& text, const std::string& architecture) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string stem = (folder / ("stax_ptx_" + std::to_string(::getpid()))).string();
  std::ofstream(stem + ".ptx") << text;
  const std::string command =
      find_ptxas() + " -arch=" + architecture + " -v " + stem + ".ptx -o " + stem + ".cubin 2>&1";
  std::string log;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) fail("ptxas does not start");
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) log += part.data();
  Assembled result;
  if (::pclose(pipe) != 0) result.log = log;
  std::filesystem::remove(stem + ".ptx");
  std::filesystem::remove(stem + ".cubin");
  const auto number = [&](const char* pattern) {
    std::smatch m;
    return std::regex_search(log, m, std::regex(pattern)) ? std::stoi(m[1]) : 0;
  };
  result.registers = number(R"(Used (\d+) registers)");
  result.spill_bytes = number(R"((\d+) bytes spill stores)") + number(R"((\d+) bytes spill loads)");
  result.stack_bytes = number(R"((\d+) bytes stack frame)");
  return result;
}

}  // namespace stax::testing
