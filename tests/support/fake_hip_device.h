// SPDX-License-Identifier: Apache-2.0
// In front of each kernel that the stand-in for hiprtc compiles: AMD's builtins as calls of the block that runs it. What is kept by macros has the
// meaning of "AMD GPU builtins" in clang's language extensions and of the ISA documents.
struct FakeBlock {
  int (*thread)();
  int (*block)(int axis);
  void (*barrier)();
  int (*exchange)(int value, int lane);  // what the lane of the same warp gave
  unsigned long long (*ballot)(bool condition);
  int (*lane)();
  void* dynamic_shared;
};
extern "C" {
FakeBlock* fake_block;
}

template <class... A>
struct FakeArguments {};
template <class... Rest>
struct FakeCall;
template <class A, class... Rest>
struct FakeCall<A, Rest...> {
  template <class F, class... Done>
  static void run(F* f, void** at, Done... done) {
    FakeCall<Rest...>::run(f, at + 1, done..., *static_cast<A*>(*at));
  }
};
template <>
struct FakeCall<> {
  template <class F, class... Done>
  static void run(F* f, void**, Done... done) {
    f(done...);
  }
};
template <class... A>
void fake_call_with(void (*f)(A...), void** arguments) {
  FakeCall<A...>::run(f, arguments);
}

inline int fake_dpp(int value, int control) {
  const int lane = fake_block->lane();
  int from = lane;
  if (control < 0x100)
    from = (lane & ~3) | ((control >> (2 * (lane & 3))) & 3);
  else if (control > 0x120 && control < 0x130)
    from = (lane & ~15) | ((lane - (control & 15)) & 15);  // row_ror
  else if (control == 0x140)
    from = lane ^ 15;  // row_mirror
  else if (control == 0x141)
    from = lane ^ 7;  // row_half_mirror
  else if (control >= 0x160 && control < 0x170)
    from = lane ^ (control & 15);  // row_xmask
  else
    __builtin_trap();
  return fake_block->exchange(value, from);
}
inline int fake_swizzle(int value, int pattern) {
  const int lane = fake_block->lane();
  return fake_block->exchange(value, (lane & ~31) | ((((lane & pattern) | (pattern >> 5)) ^ (pattern >> 10)) & 31));
}
template <class T>
bool fake_exchange_if(T* cell, T* seen, T next) {
  if (*cell == *seen) return *cell = next, true;
  return *seen = *cell, false;
}

#define __builtin_amdgcn_workitem_id_x() fake_block->thread()
#define __builtin_amdgcn_workgroup_id_x() fake_block->block(0)
#define __builtin_amdgcn_workgroup_id_y() fake_block->block(1)
#define __builtin_amdgcn_workgroup_id_z() fake_block->block(2)
#define __builtin_amdgcn_s_barrier() fake_block->barrier()
#define __builtin_amdgcn_fence(...) ((void)0)
#define __builtin_amdgcn_mbcnt_lo(mask, sum) (fake_block->lane() < 32 ? fake_block->lane() : 32)
#define __builtin_amdgcn_mbcnt_hi(mask, sum) (fake_block->lane() < 32 ? (sum) : (sum) + fake_block->lane() - 32)
#define __builtin_amdgcn_ds_bpermute(address, value) fake_block->exchange(value, (address) >> 2)
#define __builtin_amdgcn_ds_swizzle(value, pattern) fake_swizzle(value, pattern)
#define __builtin_amdgcn_mov_dpp(value, control, rows, banks, bound) fake_dpp(value, control)
#define __builtin_amdgcn_ballot_w64(condition) fake_block->ballot(condition)
#define __builtin_amdgcn_ballot_w32(condition) fake_block->ballot(condition)
#define __builtin_amdgcn_rcpf(x) (1.0f / (x))
#define __builtin_amdgcn_exp2f(x) ((x) < -126.0f ? 0.0f : __builtin_exp2f(x))
#define __builtin_amdgcn_fmed3f(x, least, most) __builtin_fminf(__builtin_fmaxf(x, least), most)
#define __HIP_MEMORY_SCOPE_AGENT 0
#define __HIP_MEMORY_SCOPE_WORKGROUP 0
// One thread runs at a time, from one meeting of its block to the next.
#define __hip_atomic_compare_exchange_strong(cell, seen, next, a, b, scope) fake_exchange_if(cell, seen, next)
#define __hip_atomic_fetch_add(cell, x, order, scope) (*(cell) += (x))
#define __hip_atomic_fetch_and(cell, x, order, scope) (*(cell) &= (x))
#define __hip_atomic_fetch_or(cell, x, order, scope) (*(cell) |= (x))
#define __hip_atomic_fetch_min(cell, x, order, scope) (*(cell) = *(cell) < (x) ? *(cell) : (x))
#define __hip_atomic_fetch_max(cell, x, order, scope) (*(cell) = *(cell) > (x) ? *(cell) : (x))
