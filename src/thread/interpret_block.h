// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs one block after the other: all threads in lockstep, with a mask where their ways part.
#include "thread/interpret_memory.h"

namespace stax::thread {

class BlockRunner {
 public:
  explicit BlockRunner(LaunchState& launch);
  /// `block`: linear number, the first index fastest.
  void run(int64_t block, const int64_t (&index)[3]);
  BlockMemory& memory() { return memory_; }

 private:
  template <class T>
  T* at(const Operand& o) {
    return reinterpret_cast<T*>(storage_.get() + o.at);
  }
  std::byte* element(int slot, int64_t k) {
    return storage_.get() + program_.locals[static_cast<size_t>(slot)] + k * program_.lanes * 8;
  }

  void run(const Node& node, const Mask& mask);
  void run_steps(const std::vector<Step>& steps, const Cost& cost, const Mask& mask, std::byte* last_out = nullptr);
  void load_step(const Node& node, const Step& step, const Mask& mask, std::byte* out);
  void element_step(const Node& node, const Step& step, const Mask& mask, std::byte* out);
  void checked_index(const Step& step, const Mask& mask, int64_t* out);
  Mask mask_of(const Step& step, const Mask& mask);

  void branch(const Node& node, const Mask& mask);
  void loop(const Node& node, const Mask& mask);
  void store(const Node& node, const Mask& mask);
  void store_local(const Node& node, const Mask& mask, const std::byte* values, bool uniform, int64_t k = 0);
  void load_vector(const Node& node, const Mask& mask);
  void store_vector(const Node& node, const Mask& mask);
  void shuffle(const Node& node, const Mask& mask);
  void vote(const Node& node, const Mask& mask);
  void async_copy(const Node& node, const Mask& mask);
  void async_wait(const Node& node, const Mask& mask);
  void load_matrix(const Node& node, const Mask& mask);
  void mma(const Node& node, const Mask& mask);
  /// Reports a warp of which only some threads are here.
  void check_whole_warps(const Node& node, const Mask& mask);
  void count_branch(const Mask& mask, const uint8_t* taken);

  int64_t threads_of_warps(const Mask& mask) const;

  uint8_t* mask_bytes(size_t depth);
  Mask full() const { return {nullptr, {0, kernel_.block}, kernel_.block}; }
  Mask narrowed(const uint8_t* bytes, const Span& span) const;

  LaunchState& launch_;
  const InterpreterProgram& program_;
  const Kernel& kernel_;
  BlockMemory memory_;
  std::unique_ptr<std::byte, void (*)(std::byte*)> storage_;
  std::vector<std::unique_ptr<uint8_t[]>> masks_;
  size_t depth_ = 0;
  const Node* node_ = nullptr;
  std::vector<std::byte> scratch_;
  // Asynchronous copies: how many groups each thread has closed, and what is under way.
  struct Copy {
    const Node* node;
    std::vector<int64_t> to;     // by lane; -1: none, or done
    std::vector<int64_t> group;  // by lane
    std::vector<std::byte> bytes;
  };
  std::vector<int64_t> groups_;
  std::vector<Copy> copies_;
};

}  // namespace stax::thread
