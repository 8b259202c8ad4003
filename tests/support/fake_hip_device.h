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
// Four bytes of eight: those of `low` are 0 to 3.
inline unsigned fake_perm(unsigned high, unsigned low, unsigned selector) {
  const unsigned long long all = (unsigned long long)high << 32 | low;
  unsigned word = 0;
  for (int k = 0; k < 4; ++k) {
    const unsigned from = selector >> (8 * k) & 255;
    if (from > 7) __builtin_trap();
    word |= (unsigned)(all >> (8 * from) & 255) << (8 * k);
  }
  return word;
}
inline float fake_factor(_Float16 x) { return (float)x; }
inline float fake_factor(short x) { return __builtin_bit_cast(float, (unsigned)(unsigned short)x << 16); }
// Matrix instructions: a lane has one column of the product. Of the factors a lane has `kWords` words, two steps of the depth each: of one row of the
// left and of one column of the right. row(i) is the row of the lane's sum i. `kParts` lanes, `kSize` apart, share a row and a column, each with its
// steps of the depth.
template <int kSize, int kParts, int kWords, class A, class C, class Row>
C fake_product(A a, A b, C c, Row row) {
  const int lane = fake_block->lane();
  int left[kWords], right[kWords];
  __builtin_memcpy(left, &a, sizeof left);
  __builtin_memcpy(right, &b, sizeof right);
  const auto halves = [&](int word, float* to) {
    A both = a;
    __builtin_memcpy(&both, &word, sizeof word);
    to[0] = fake_factor(both[0]), to[1] = fake_factor(both[1]);
  };
  for (int part = 0; part < kParts; ++part)
    for (int w = 0; w < kWords; ++w) {
      float y[2];
      halves(kParts == 1 ? right[w] : fake_block->exchange(right[w], lane % kSize + kSize * part), y);
      for (int i = 0; i < (int)(sizeof c / sizeof(float)); ++i) {
        float x[2];
        halves(fake_block->exchange(left[w], row(i) + (kParts == 1 ? 0 : kSize * part)), x);
        c[i] += x[0] * y[0] + x[1] * y[1];
      }
    }
  return c;
}
template <class A, class C>
C fake_wmma(A a, A b, C c) {
  return fake_product<16, 1, 8>(a, b, c, [](int i) { return 2 * i + fake_block->lane() / 16; });
}
template <class A, class C>
C fake_mfma(A a, A b, C c) {
  constexpr int kSize = sizeof c == 64 ? 32 : 16;
  return fake_product<kSize, 64 / kSize, 2>(a, b, c,
                                            [](int i) { return i / 4 * 8 + fake_block->lane() / kSize * 4 + i % 4; });
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
#define __builtin_amdgcn_perm(high, low, selector) fake_perm(high, low, selector)
#define __builtin_amdgcn_ballot_w64(condition) fake_block->ballot(condition)
#define __builtin_amdgcn_ballot_w32(condition) fake_block->ballot(condition)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c) fake_wmma(a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c) fake_wmma(a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, cbsz, abid, blgp) fake_mfma(a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, cbsz, abid, blgp) fake_mfma(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, cbsz, abid, blgp) fake_mfma(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, cbsz, abid, blgp) fake_mfma(a, b, c)
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
