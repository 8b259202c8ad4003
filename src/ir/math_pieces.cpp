// SPDX-License-Identifier: Apache-2.0
#include "ir/math_pieces.h"

#include "ir/math_table.h"
#include "support/error.h"

namespace stax::ir {
namespace {

// As scripts/fit_polynomials.py prints them; the error is relative to the function.
// erf(x) = x q(|x|), 32 pieces; 2^-24.2 with the first coefficient rounded
constexpr float kErf[][kMathEntries] = {
    {0x1.20dd76p+0F, 0x1.1f4518p+0F, 0x1.1a9422p+0F, 0x1.13101ep+0F, 0x1.092426p+0F, 0x1.faaa6ap-1F, 0x1.e06954p-1F,
     0x1.c4a5fap-1F, 0x1.a868cep-1F, 0x1.8c9184p-1F, 0x1.71ce02p-1F, 0x1.589862p-1F, 0x1.413a8ap-1F, 0x1.2bd57ep-1F,
     0x1.186a98p-1F, 0x1.06e4e4p-1F, 0x1.ee4312p-2F, 0x1.d1ed3ap-2F, 0x1.b8704cp-2F, 0x1.a176e8p-2F, 0x1.8cb21ep-2F,
     0x1.79db54p-2F, 0x1.68b4aep-2F, 0x1.5908bep-2F, 0x1.4aa9a8p-2F, 0x1.3d703ap-2F, 0x1.313aeap-2F, 0x1.25ecfap-2F,
     0x1.1b6dbp-2F,  0x1.11a7b8p-2F, 0x1.088888p-2F, 0x1p-2F},
    {-0x1.a37908p-20F, -0x1.9653aep-7F, -0x1.8a6304p-6F, -0x1.198dbap-5F, -0x1.5ea37cp-5F, -0x1.920a0ap-5F,
     -0x1.b30feep-5F,  -0x1.c295ccp-5F, -0x1.c2b89ap-5F, -0x1.b66078p-5F, -0x1.a0cb4p-5F,  -0x1.8525bcp-5F,
     -0x1.663fe4p-5F,  -0x1.46609p-5F,  -0x1.273652p-5F, -0x1.09defep-5F, -0x1.ddfb0ap-6F, -0x1.adac54p-6F,
     -0x1.82d608p-6F,  -0x1.5d2982p-6F, -0x1.3c2c0cp-6F, -0x1.1f522p-6F,  -0x1.0610c6p-6F, -0x1.dfce96p-7F,
     -0x1.b8c73ap-7F,  -0x1.9646cp-7F,  -0x1.77a642p-7F, -0x1.5c595ap-7F, -0x1.43ea5ap-7F, -0x1.2df696p-7F,
     -0x1.1a2b22p-7F,  -0x1.08412ap-7F},
    {-0x1.99aa82p-8F,  -0x1.8e3002p-8F, -0x1.6b258p-8F,  -0x1.351366p-8F, -0x1.e3fed2p-9F, -0x1.517a0ep-9F,
     -0x1.800fcep-10F, -0x1.d9ab2p-12F, 0x1.a8c146p-12F, 0x1.182c9ap-10F, 0x1.91ed78p-10F, 0x1.db3c6cp-10F,
     0x1.fb5864p-10F,  0x1.fbf21ep-10F, 0x1.e657ccp-10F, 0x1.c2e438p-10F, 0x1.988ecp-10F,  0x1.6c4866p-10F,
     0x1.417deep-10F,  0x1.19e9p-10F,   0x1.ed48eep-11F, 0x1.af5c4ap-11F, 0x1.7a20fp-11F,  0x1.4c48bcp-11F,
     0x1.254a2ep-11F,  0x1.03c576p-11F, 0x1.ce0dp-12F,   0x1.9c99bep-12F, 0x1.725c4ap-12F, 0x1.4cfc8ep-12F,
     0x1.2ceaaap-12F,  0x1.118f86p-12F},
    {-0x1.f658aep-16F, 0x1.00c286p-13F,  0x1.e3c8c4p-13F,  0x1.48406ap-12F,  0x1.7bcabcp-12F,  0x1.8a5a96p-12F,
     0x1.772466p-12F,  0x1.49656p-12F,   0x1.0ab6d6p-12F,  0x1.89ee78p-13F,  0x1.019e2ep-13F,  0x1.124a36p-14F,
     0x1.3e9b6ep-16F,  -0x1.fd7f5ap-17F, -0x1.3cdc6cp-15F, -0x1.a8302cp-15F, -0x1.d45882p-15F, -0x1.d4aae6p-15F,
     -0x1.b986cap-15F, -0x1.9002ccp-15F, -0x1.611e04p-15F, -0x1.32975cp-15F, -0x1.07a238p-15F, -0x1.c327bcp-16F,
     -0x1.81a124p-16F, -0x1.4a15p-16F,   -0x1.1b5294p-16F, -0x1.e858f6p-17F, -0x1.a6b79cp-17F, -0x1.6f9e92p-17F,
     -0x1.411512p-17F, -0x1.ad912ap-18F},
    {0x1.e51e8ap-15F,  0x1.cf158p-16F,   0x1.b5116ap-16F,  0x1.1f480ap-16F,  0x1.016e28p-17F,  -0x1.7e31fp-20F,
     -0x1.38db42p-17F, -0x1.9ab732p-17F, -0x1.213ab6p-16F, -0x1.1b5996p-16F, -0x1.00c16p-16F,  -0x1.c56b6cp-17F,
     -0x1.29aadep-17F, -0x1.af30e2p-18F, -0x1.2c81d6p-18F, -0x1.eca604p-20F, -0x1.ef7c06p-23F, 0x1.33f0acp-20F,
     0x1.0c847cp-20F,  0x1.eede8p-20F,   0x1.47655cp-20F,  0x1.f2496p-20F,   0x1.c72e2cp-21F,  0x1.3da5dp-20F,
     0x1.d7f356p-23F,  0x1.d6efcap-22F,  0x1.8a0ebep-21F,  0x1.0ba342p-20F,  -0x1.b7a0fap-23F, 0x1.073e98p-20F,
     0x1.084a5ep-21F,  0x1.12daccp-19F},
};
// tanh(x) = x q(|x|), 31 pieces; 2^-24.6 with the first coefficient rounded
constexpr float kTanh[][kMathEntries] = {
    {0x1p+0F,        0x1.edd7f4p-1F, 0x1.bf93cap-1F, 0x1.85efacp-1F, 0x1.4e1a8ap-1F, 0x1.1e097p-1F,  0x1.ed9506p-2F,
     0x1.aeae2ep-2F, 0x1.7c4f58p-2F, 0x1.53a536p-2F, 0x1.326b4ap-2F, 0x1.16e874p-2F, 0x1.ffa818p-3F, 0x1.d873dep-3F,
     0x1.b6c79p-3F,  0x1.999014p-3F, 0x1.7ffb6ap-3F, 0x1.696732p-3F, 0x1.555442p-3F, 0x1.435dccp-3F, 0x1.3332f2p-3F,
     0x1.24922ap-3F, 0x1.1745c2p-3F, 0x1.0b215cp-3F, 0x1.fffff8p-4F, 0x1.eb851ap-4F, 0x1.d89d88p-4F, 0x1.c71c7p-4F,
     0x1.b6db6ep-4F, 0x1.a7b96p-4F,  0x1.99999ap-4F, 0x1.99999ap-4F},
    {-0x1.d7dd5p-25F, -0x1.16275cp-4F, -0x1.b5e234p-4F, -0x1.d26cc8p-4F, -0x1.a362p-4F,   -0x1.5cad42p-4F,
     -0x1.18d2e4p-4F, -0x1.c100cap-5F, -0x1.68b966p-5F, -0x1.24ed3cp-5F, -0x1.e1f39p-6F,  -0x1.91cbf4p-6F,
     -0x1.53460ap-6F, -0x1.21df42p-6F, -0x1.f4a276p-7F, -0x1.b47866p-7F, -0x1.7fca88p-7F, -0x1.540d44p-7F,
     -0x1.2f5be2p-7F, -0x1.10496cp-7F, -0x1.eb7f48p-8F, -0x1.bdcfe2p-8F, -0x1.96359ep-8F, -0x1.73a834p-8F,
     -0x1.5555p-8F,   -0x1.3a9278p-8F, -0x1.22d706p-8F, -0x1.0db2p-8F,   -0x1.f58d08p-9F, -0x1.d38ebcp-9F,
     -0x1.b4e58ap-9F, -0x1.b4e58ap-9F},
    {-0x1.2f650ep-5F, -0x1.cdc388p-6F, -0x1.5e498p-7F,  0x1.3cf2cp-9F,   0x1.0576c8p-7F,  0x1.1f4b96p-7F,
     0x1.f4e336p-8F,  0x1.9016eep-8F,  0x1.350306p-8F,  0x1.d91a3p-9F,   0x1.6b6978p-9F,  0x1.19dacap-9F,
     0x1.ba938cp-10F, 0x1.60271ap-10F, 0x1.1bdc1cp-10F, 0x1.cf7908p-11F, 0x1.7ed34cp-11F, 0x1.3f96c2p-11F,
     0x1.0d7114p-11F, 0x1.ca3f94p-12F, 0x1.89153p-12F,  0x1.53848ep-12F, 0x1.276054p-12F, 0x1.0297d8p-12F,
     0x1.c726f8p-13F, 0x1.92c546p-13F, 0x1.65f466p-13F, 0x1.3fbef8p-13F, 0x1.1e81fcp-13F, 0x1.02128ep-13F,
     0x1.d59e9cp-14F, 0x1.d59e9cp-14F},
    {-0x1.dd085ep-17F, 0x1.599376p-8F,   0x1.6d64e2p-8F,   0x1.8d496ap-9F,   0x1.c57e6ep-11F,  -0x1.70f0e6p-13F,
     -0x1.02ff94p-11F, -0x1.07c66ep-11F, -0x1.b5adf4p-12F, -0x1.50a61p-12F,  -0x1.f72b46p-13F, -0x1.753d34p-13F,
     -0x1.15af04p-13F, -0x1.a0fbcep-14F, -0x1.3c8b4ap-14F, -0x1.e6e45p-15F,  -0x1.7b3ef6p-15F, -0x1.2b1802p-15F,
     -0x1.dd6c16p-16F, -0x1.80e582p-16F, -0x1.3a05cp-16F,  -0x1.0269c6p-16F, -0x1.ad76dcp-17F, -0x1.67d62p-17F,
     -0x1.2f571p-17F,  -0x1.01cbb6p-17F, -0x1.b8571p-18F,  -0x1.7aee4ep-18F, -0x1.474058p-18F, -0x1.1cefaap-18F,
     0x1.c186acp-23F,  0x1.c186acp-23F},
    {0x1.be8e6p-10F,   0x1.830ea2p-11F, -0x1.d1372ep-12F, -0x1.5af68ap-11F, -0x1.9e10fep-12F, -0x1.3c4722p-13F,
     -0x1.e4d06ap-16F, 0x1.e7cfb6p-17F, 0x1.8fb71p-16F,   0x1.7a2eacp-16F,  0x1.33fb18p-16F,  0x1.c3eb82p-17F,
     0x1.51009cp-17F,  0x1.c9dc62p-18F, 0x1.5d96ccp-18F,  0x1.e371ecp-19F,  0x1.46ca7cp-19F,  0x1.f539e6p-20F,
     0x1.763d8cp-20F,  0x1.9aa77p-20F,  0x1.f7924cp-21F,  0x1.10e4fep-20F,  0x1.5b7294p-21F,  0x1.2785ccp-22F,
     0x1.38b398p-22F,  0x1.f60ea2p-24F, 0x1.0d6e58p-22F,  0x1.740d72p-25F,  0x1.51e4aep-22F,  -0x1.73bea4p-26F,
     0x1.0af848p-17F,  0x1.0af848p-17F},
    {-0x1.bc809ep-14F, -0x1.2ab562p-12F, -0x1.29145ep-13F, 0x1.011502p-15F,  0x1.f827dp-15F,   0x1.2d1d9ap-15F,
     0x1.e7a3b8p-17F,  0x1.20e5fcp-18F,  0x1.0ae3fep-21F,  -0x1.bd2cf2p-21F, -0x1.1a8ed8p-20F, -0x1.ce9738p-21F,
     -0x1.808198p-21F, -0x1.cf5c7ep-22F, -0x1.74c838p-22F, -0x1.b8f7d6p-23F, -0x1.0fa64cp-23F, -0x1.6fcec4p-24F,
     -0x1.da1e8cp-25F, -0x1.da7fe8p-24F, -0x1.cac7b6p-25F, -0x1.086046p-24F, -0x1.e0e3d8p-26F, 0x1.d50c38p-30F,
     -0x1.0fc10cp-26F, 0x1.25b4bep-35F,  -0x1.35872ep-26F, -0x1.bf76fp-30F,  -0x1.4e5072p-26F, 0x1.26a60ep-27F,
     0x1.7e487ep-18F,  0x1.7e487ep-18F},
};

// 2^(k / 32)
constexpr float kPowers[kMathEntries] = {
    0x1p+0F,        0x1.059b0ep+0F, 0x1.0b5586p+0F, 0x1.11301ep+0F, 0x1.172b84p+0F, 0x1.1d4874p+0F, 0x1.2387a6p+0F,
    0x1.29e9ep+0F,  0x1.306fep+0F,  0x1.371a74p+0F, 0x1.3dea64p+0F, 0x1.44e086p+0F, 0x1.4bfdaep+0F, 0x1.5342b6p+0F,
    0x1.5ab07ep+0F, 0x1.6247ecp+0F, 0x1.6a09e6p+0F, 0x1.71f75ep+0F, 0x1.7a1148p+0F, 0x1.82589ap+0F, 0x1.8ace54p+0F,
    0x1.93737cp+0F, 0x1.9c4918p+0F, 0x1.a5503cp+0F, 0x1.ae89fap+0F, 0x1.b7f77p+0F,  0x1.c199bep+0F, 0x1.cb720ep+0F,
    0x1.d5818ep+0F, 0x1.dfc974p+0F, 0x1.ea4afap+0F, 0x1.f50766p+0F};

constexpr uint64_t kErfDegree = std::size(kErf) - 1, kTanhDegree = std::size(kTanh) - 1;
constexpr uint64_t kFirstOfErf = 0, kFirstOfTanh = std::size(kErf), kPowersNumber = kFirstOfTanh + std::size(kTanh);

}  // namespace

constinit const Pieces kErfPieces = {4, 7.75, kErfDegree, kFirstOfErf};
constinit const Pieces kTanhPieces = {10, 3, kTanhDegree, kFirstOfTanh};
constinit const uint64_t kPowersTable = kPowersNumber;

std::span<const float, kMathEntries> math_entries(uint64_t table) {
  STAX_ASSERT(table <= kPowersNumber, "there is no table {} of coefficients", table);
  if (table == kPowersNumber) return kPowers;
  return std::span<const float, kMathEntries>(table < kFirstOfTanh ? kErf[table] : kTanh[table - kFirstOfTanh]);
}

}  // namespace stax::ir
