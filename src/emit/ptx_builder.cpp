// SPDX-License-Identifier: Apache-2.0
#include "emit/ptx_builder.h"

#include <algorithm>

#include "support/error.h"

namespace stax::emit::ptx {

Builder::Builder() { blocks_.emplace_back(); }

std::string Builder::key_of(const Instruction& i, int state) const {
  std::string key = i.op;
  const auto number = [&](int64_t v) { key.append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  key += '|';
  number(state);
  number(i.offset);
  for (const Operand& s : i.src) {
    key += static_cast<char>('a' + static_cast<int>(s.kind));
    number(s.value);
  }
  if (i.predicate) {
    key += i.negated ? '!' : '@';
    number(i.predicate.value);
  }
  return key;
}

const std::vector<Operand>* Builder::find(const std::string& key) const {
  for (size_t b = blocks_.size(); b-- > 0;)
    if (const auto found = blocks_[b].known.find(key); found != blocks_[b].known.end()) return &found->second;
  return nullptr;
}

int Builder::place_of(int depth) const {
  for (int b = depth + 1; b < static_cast<int>(blocks_.size()); ++b)
    if (blocks_[static_cast<size_t>(b)].kind == Kind::kLoop) return b - 1;
  return this->depth();
}

void Builder::set_depth(Operand x, int depth) {
  if (depths_.size() < code_.registers.size()) depths_.resize(code_.registers.size(), 0);
  depths_[static_cast<size_t>(x.reg())] = depth;
}

std::vector<Operand> Builder::place(Instruction i, const std::vector<Class>& classes) {
  std::string key = key_of(i, 0);
  if (const std::vector<Operand>* known = find(key)) return *known;
  int depth = 0;
  for (const Operand& s : i.src) depth = std::max(depth, depth_of(s));
  depth = place_of(depth);
  for (Class c : classes) {
    i.dst.push_back(fresh(c));
    set_depth(i.dst.back(), depth);
  }
  std::vector<Operand> result = i.dst;
  Block& block = blocks_[static_cast<size_t>(depth)];
  block.known.emplace(std::move(key), result);
  block.list.push_back(std::move(i));
  return result;
}

Operand Builder::pure(Class cls, const std::string& op, std::vector<Operand> src) {
  Instruction i;
  i.op = op;
  i.src = std::move(src);
  return place(std::move(i), {cls})[0];
}

Operand Builder::pure(Class cls, const std::string& op, std::initializer_list<Operand> src) {
  return pure(cls, op, std::vector<Operand>(src));
}

Operand Builder::half(Class cls, const std::string& op, Operand whole, int index) {
  if (const auto found = parts_.find(whole.value); whole.is_reg() && found != parts_.end())
    return index == 0 ? found->second.first : found->second.second;
  Instruction i;
  i.op = op;
  i.layout = Layout::kSplit;
  i.src = {whole};
  const std::vector<Operand> halves = place(std::move(i), {cls, cls});
  for (int k : {0, 1}) whole_[halves[static_cast<size_t>(k)].value] = {whole, k};
  return halves[static_cast<size_t>(index)];
}

Operand Builder::join(Class cls, const std::string& op, Operand low, Operand high) {
  if (low.is_reg() && high.is_reg()) {
    const auto a = whole_.find(low.value), b = whole_.find(high.value);
    if (a != whole_.end() && b != whole_.end() && a->second.first == b->second.first && a->second.second == 0 &&
        b->second.second == 1 && a->second.first.cls == cls)
      return a->second.first;
  }
  Instruction i;
  i.op = op;
  i.layout = Layout::kJoin;
  i.src = {low, high};
  const Operand result = place(std::move(i), {cls})[0];
  if (low.is_reg() && high.is_reg()) parts_[result.value] = {low, high};
  return result;
}

void Builder::effect(Instruction i) {
  if (guard_) {
    STAX_ASSERT(!i.predicate, "two predicates for {}", i.op);
    i.predicate = guard_;
  }
  i.effect = true;
  for (const Operand& d : i.dst) set_depth(d, depth());
  blocks_.back().list.push_back(std::move(i));
}

std::vector<Operand> Builder::load(Instruction i, int state) {
  i.predicate = guard_;
  std::string key = key_of(i, state);
  if (const std::vector<Operand>* known = find(key)) return *known;
  for (Operand& d : i.dst) {
    set_depth(d, depth());
    // A load that may not happen leaves its register as it was; in a loop that would keep the old value alive all around.
    if (i.predicate && in_loop()) {
      const bool wide = d.cls == Class::kB64 || d.cls == Class::kF64;
      Instruction zero;
      zero.op = d.cls == Class::kB16 ? "mov.b16" : wide ? "mov.b64" : "mov.b32";
      zero.dst = {d};
      zero.src = {integer(0)};
      blocks_.back().list.push_back(std::move(zero));
    }
  }
  std::vector<Operand> result = i.dst;
  blocks_.back().known.emplace(std::move(key), result);
  blocks_.back().list.push_back(std::move(i));
  return result;
}

namespace {

const char* move_of(Class cls) {
  switch (cls) {
    case Class::kPred: return "mov.pred";
    case Class::kB16: return "mov.b16";
    case Class::kB32:
    case Class::kF32: return "mov.b32";
    case Class::kB64:
    case Class::kF64: return "mov.b64";
  }
  STAX_UNREACHABLE();
}

}  // namespace

void Builder::copy(Operand to, Operand from) {
  if (to == from) return;
  Instruction i;
  i.op = from.kind == Operand::Kind::kF32 ? "mov.f32" : from.kind == Operand::Kind::kF64 ? "mov.f64" : move_of(to.cls);
  if (to.cls == Class::kPred && from.is_int()) {  // there are no constants of predicates
    i.op = "setp.ne.s32";
    from = integer(from.value != 0 ? 1 : 0);
    i.src = {from, integer(0)};
  } else {
    i.src = {from};
  }
  i.dst = {to};
  blocks_.back().list.push_back(std::move(i));
}

void Builder::copy_all(std::vector<std::pair<Operand, Operand>> copies) {
  std::erase_if(copies, [](const auto& c) { return c.first == c.second; });
  while (!copies.empty()) {
    const auto is_read = [&](Operand to) {
      return std::any_of(copies.begin(), copies.end(), [&](const auto& c) { return c.second == to; });
    };
    const auto free = std::find_if(copies.begin(), copies.end(), [&](const auto& c) { return !is_read(c.first); });
    if (free != copies.end()) {
      copy(free->first, free->second);
      copies.erase(free);
      continue;
    }
    // A cycle: one value steps aside.
    Operand aside = fresh(copies.front().second.cls);
    set_depth(aside, depth());
    copy(aside, copies.front().second);
    copies.front().second = aside;
  }
}

void Builder::label(int label) {
  Instruction i;
  i.layout = Layout::kLabel;
  i.label = label;
  blocks_.back().list.push_back(std::move(i));
}

void Builder::branch(int label, Operand predicate, bool negated) {
  Instruction i;
  i.op = "bra";
  i.layout = Layout::kBranch;
  i.label = label;
  i.predicate = predicate;
  i.negated = negated;
  blocks_.back().list.push_back(std::move(i));
}

Operand Builder::as_predicate(Operand x) {
  if (x.is_reg()) return x;
  STAX_ASSERT(x.is_int(), "a predicate of a float");
  return pure(Class::kPred, "setp.ne.s32", {integer(x.value != 0 ? 1 : 0), integer(0)});
}

Operand Builder::both(Operand a, Operand b) {
  if (!a || a.is_int(1)) return b;
  if (!b || b.is_int(1)) return a;
  if (a.is_int(0) || b.is_int(0)) return integer(0);
  return a == b ? a : pure(Class::kPred, "and.pred", {a, b});
}

Operand Builder::negation(Operand p) {
  if (p.is_int()) return integer(p.value == 0 ? 1 : 0);
  return pure(Class::kPred, "not.pred", {p});
}

void Builder::open(Kind kind) {
  Block block;
  block.kind = kind;
  blocks_.push_back(std::move(block));
}

std::vector<Instruction> Builder::close() {
  STAX_ASSERT(blocks_.size() > 1, "no block is open");
  std::vector<Instruction> list = std::move(blocks_.back().list);
  blocks_.pop_back();
  return list;
}

void Builder::append(std::vector<Instruction> list) {
  auto& own = blocks_.back().list;
  own.insert(own.end(), std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
}

bool Builder::in_loop() const {
  return std::any_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.kind == Kind::kLoop; });
}

void Builder::cold(Operand predicate, const std::function<void()>& body) {
  const int away = new_label(), back = new_label();
  branch(away, predicate);
  label(back);
  const Operand guard = guard_;
  guard_ = {};
  open(Kind::kBranch);
  label(away);
  body();
  branch(back);
  std::vector<Instruction> list = close();
  guard_ = guard;
  cold_.insert(cold_.end(), std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
}

Code Builder::finish() {
  STAX_ASSERT(blocks_.size() == 1, "a block is open");
  Instruction end;
  end.op = "ret";
  end.effect = true;
  blocks_[0].list.push_back(end);
  append(std::move(cold_));
  code_.list = std::move(blocks_[0].list);
  blocks_.clear();
  return std::move(code_);
}

}  // namespace stax::emit::ptx
