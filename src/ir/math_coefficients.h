// SPDX-License-Identifier: Apache-2.0
/// Coefficients of the polynomials of ir/math_table.h, as scripts/fit_polynomials.py prints them; the error is relative to the function.
#pragma once

#include <cstdint>
#include <limits>

namespace stax::ir {

// exp(r) = 1 + r + r^2 q(r); 2^-27.8
inline constexpr float kExp32[] = {0x1.fffff4p-2F, 0x1.55548ep-3F, 0x1.555e88p-5F, 0x1.123bdp-7F, 0x1.664b8ap-10F};
// exp(r) = 1 + r q(r), |r| <= log(2) / 64; 2^-24.2
inline constexpr float kExpPiece32[] = {0x1.0000f6p+0F, 0x1.00001cp-1F};
// log(1 + f) = f + f^2 q(f); 2^-27.7
inline constexpr float kLog32[] = {-0x1.fffff8p-2F, 0x1.555558p-2F,  -0x1.000432p-2F, 0x1.99a016p-3F, -0x1.5422bp-3F,
                                   0x1.22b8bep-3F,  -0x1.0fa384p-3F, 0x1.06b52p-3F,   -0x1.325abp-4F};
// tanh(x) = x + x^3 q(x^2), |x| <= 0.65; 2^-27.1
inline constexpr float kTanh32[] = {-0x1.555524p-2F, 0x1.1103f4p-3F, -0x1.b7d056p-5F, 0x1.4f616ep-6F, -0x1.697af8p-8F};
// erf(x) = x + x q(x^2), |x| <= 0.875; 2^-26.1
inline constexpr float kErf32[] = {0x1.06eba6p-3F,  -0x1.8127p-2F, 0x1.ce1fb4p-4F,
                                   -0x1.b6e0d2p-6F, 0x1.495dcp-8F, -0x1.4375dap-11F};
// erf(x) = 1 - exp(q(x)), 0.875 <= x <= 4; 2^-33.2
inline constexpr float kLogErfc32[] = {0x1.50b45cp-13F, -0x1.212366p+0F, -0x1.44585p-1F,  -0x1.bae29ep-4F,
                                       0x1.99ed7cp-6F,  -0x1.0ee3cep-8F, 0x1.bf7d28p-12F, -0x1.56dd32p-16F};
// sin(x) = x + x^3 q(x^2), |x| <= pi / 4; 2^-27.9
inline constexpr float kSin32[] = {-0x1.555546p-3F, 0x1.11077cp-7F, -0x1.9955c6p-13F};
// cos(x) = 1 - x^2 / 2 + x^4 q(x^2), |x| <= pi / 4; 2^-33.0
inline constexpr float kCos32[] = {0x1.55554ap-5F, -0x1.6c0c2cp-10F, 0x1.99e9ecp-16F};

// In double, enough for results in float.
// exp(r) = 1 + r + r^2 q(r); 2^-34.2
inline constexpr double kExpShort[] = {0x1.0000003a234b8p-1, 0x1.5555544322523p-3,  0x1.55548dc4f35ccp-5,
                                       0x1.111270d561afbp-7, 0x1.6d8d06a9232d3p-10, 0x1.9f086b5960439p-13};
// log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2); 2^-37.6
inline constexpr double kLogShort[] = {0x1.555554fdc714cp-1, 0x1.999a7a540d881p-2, 0x1.2438e17be96b8p-2,
                                       0x1.e2f55c92809f7p-3};
// sin(x) = x + x^3 q(x^2); 2^-37.5
inline constexpr double kSinShort[] = {-0x1.5555554c70886p-3, 0x1.111108695e656p-7, -0x1.a00f7e45f217ep-13,
                                       0x1.6cd1b934d9a3ap-19};
// cos(x) = 1 - x^2 / 2 + x^4 q(x^2); 2^-42.9
inline constexpr double kCosShort[] = {0x1.5555554ed8e17p-5, -0x1.6c16b82939cd8p-10, 0x1.a010de2b82cd7p-16,
                                       -0x1.241e7707a5bf5p-22};
// atan(x) = x + x^3 q(x^2), |x| <= tan(pi / 8); 2^-35.4
inline constexpr double kAtanShort[] = {-0x1.555554c5e2514p-2, 0x1.9999188294f35p-3,  -0x1.247ed686d72fdp-3,
                                        0x1.c463969664facp-4,  -0x1.5b2dc68c483cbp-4, 0x1.8497bdfc5c925p-5};
// asin(x) = x + x^3 q(x^2), |x| <= 1 / 2; 2^-35.8
inline constexpr double kAsinShort[] = {0x1.5555560653c87p-3, 0x1.3332a9a872492p-4, 0x1.6ddad4ef09d17p-5,
                                        0x1.ed5af41171493p-6, 0x1.932d9556aaa67p-6, 0x1.eb71ba10b2946p-8,
                                        0x1.1bee5a7d722b8p-5};
// sinh(x) = x + x^3 q(x^2), |x| <= 1; 2^-34.2
inline constexpr double kSinhShort[] = {0x1.5555551b32c39p-3, 0x1.111134ff7fa7p-7, 0x1.9ffe904cf5b7p-13,
                                        0x1.7a160ae022bf2p-19};

// In double, for results in double.
// exp(r) = 1 + r + r^2 q(r); 2^-56.4
inline constexpr double kExp[] = {
    0x1.000000000000ap-1,  0x1.55555555554fap-3,  0x1.555555555087ep-5,  0x1.1111111127bf3p-7,  0x1.6c16c18429c38p-10,
    0x1.a01a012a4fee1p-13, 0x1.a0199a0d1fdafp-16, 0x1.71df2569940ddp-19, 0x1.28ad7235082e5p-22, 0x1.ad7f427b4db4ep-26};
// log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2); 2^-61.6
inline constexpr double kLog[] = {0x1.5555555555555p-1, 0x1.9999999999dfdp-2, 0x1.249249242b604p-2,
                                  0x1.c71c7258df3e4p-3, 0x1.745cde3d85631p-3, 0x1.3b20aa7332539p-3,
                                  0x1.0f5cdd56f88f9p-3, 0x1.0f627f4d00695p-3};
// sin(x) = x + x^3 q(x^2); 2^-56.4
inline constexpr double kSin[] = {-0x1.5555555555548p-3, 0x1.111111110f7ccp-7,   -0x1.a01a019bfd54bp-13,
                                  0x1.71de35674018ap-19, -0x1.ae5e5a14b58d7p-26, 0x1.5d8faafd9a482p-33};
// cos(x) = 1 - x^2 / 2 + x^4 q(x^2); 2^-59.7
inline constexpr double kCos[] = {0x1.555555555554bp-5,   -0x1.6c16c16c14f8bp-10, 0x1.a01a019c83989p-16,
                                  -0x1.27e4f7ea39164p-22, 0x1.1ee9d75196a68p-29,  -0x1.8fa464a8c6cc3p-37};
// atan(x) = x + x^3 q(x^2), |x| <= tan(pi / 8); 2^-57.4
inline constexpr double kAtan[] = {-0x1.555555555553dp-2, 0x1.99999999957b2p-3,  -0x1.24924922a9937p-3,
                                   0x1.c71c70e4c0ca5p-4,  -0x1.745cf8ba52463p-4, 0x1.3b1116ec1f5a4p-4,
                                   -0x1.10eba10528087p-4, 0x1.df0e0bd57bfdcp-5,  -0x1.9ccd64efe6683p-5,
                                   0x1.37c8a8b58cfabp-5,  -0x1.254f045977162p-6};
// asin(x) = x + x^3 q(x^2), |x| <= 1 / 2; 2^-58.0
inline constexpr double kAsin[] = {
    0x1.5555555555577p-3, 0x1.333333332e08fp-4,  0x1.6db6db7219c6fp-5, 0x1.f1c71a922f2cdp-6, 0x1.6e8bdf2efe84dp-6,
    0x1.1c49eabfc1f67p-6, 0x1.ca20168479844p-7,  0x1.7581120d50c2ap-7, 0x1.61561701dcf1ep-7, 0x1.e46bda2114c8ep-9,
    0x1.64169355472fep-6, -0x1.58adbbaac2905p-6, 0x1.0b7eebfafccdfp-5};
// sinh(x) = x + x^3 q(x^2), |x| <= 1; 2^-56.8
inline constexpr double kSinh[] = {0x1.5555555555555p-3,  0x1.1111111111111p-7,  0x1.a01a01a019fc1p-13,
                                   0x1.71de3a5573f95p-19, 0x1.ae645674197a2p-26, 0x1.61246afb91127p-33,
                                   0x1.ae756da5fa73fp-41, 0x1.9a7983c1cff18p-49};
// erf(x) = x q(x^2), |x| <= 1; 2^-55.0
inline constexpr double kErf[] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b2p-4,
                                  -0x1.b82ce3128497ep-6,  0x1.565bcd0dafdf1p-8,   -0x1.c02db3d8de448p-11,
                                  0x1.f9a3219f5a1bap-14,  -0x1.f4d1df1621cbap-17, 0x1.b9deefcbcc4adp-20,
                                  -0x1.5f1d26da3b134p-23, 0x1.f7a3625135bf3p-27,  -0x1.38689350bcbbcp-30,
                                  0x1.0573a315e6a2ep-34};
// erfc(x) = exp(-x^2) q((x - 2) / (x + 2)), 1 <= x <= 6, error relative to erf; 2^-61.6
inline constexpr double kErfc[] = {
    0x1.058671b52c776p-2,  -0x1.b57034efd3f72p-2,  0x1.eeea7dc8a78b4p-3,   -0x1.437f0b68c0c2bp-4, 0x1.e94715979ef67p-9,
    0x1.ca95ed5346cfdp-8,  -0x1.bc25a47c38b72p-11, -0x1.016b5ce70e1a7p-10, 0x1.6d5efaa4e89bdp-15, 0x1.6da96c4e0bf6cp-13,
    0x1.cdcb6a35c8047p-16, -0x1.cead8b84fcd0dp-16, -0x1.d4641be7dcb4ap-17, 0x1.6ead7148dd8c1p-20, 0x1.ed33696be89c4p-19,
    0x1.4bc2f6c36fa76p-20, -0x1.a1b93bf1bfb52p-27};

inline constexpr uint32_t kTwoOverPi[] = {
    0,          0,          0,          0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
    0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5,
    0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F,
    0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7,
    0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB, 0xF0CFBC20, 0x9AF4361D};

inline constexpr double kPi = 0x1.921fb54442d18p+1;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kTwoOverPiReal = 0x1.45f306dc9c883p-1;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Adding and subtracting it rounds to a whole number, which is in the lowest bits of the sum in between.
inline constexpr double kRoundF32 = 0x1.8p23;
inline constexpr double kRoundF64 = 0x1.8p52;

}  // namespace stax::ir
