#include "kvant/kernel/dequantize_reference.h"

#include <cstring>

#include "kvant/core/error.h"
#include "kvant/core/scalar.h"

namespace kvant {

namespace {

// The blocks' layouts follow ggml's type descriptions; d is a block's scale, m its minimum.

float Half(const uint8_t* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return FloatFromFp16(bits);
}

int Signed(uint8_t byte) { return byte < 128 ? byte : byte - 256; }

// Code i of 32 in 16 bytes: low nibbles first.
int Nibble(const uint8_t* codes, uint64_t i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; }

int FifthBit(const uint8_t* bits, uint64_t i) { return ((bits[i / 8] >> (i % 8)) & 1) << 4; }

float Q8_0(const uint8_t* b, uint64_t i) { return Half(b) * static_cast<float>(Signed(b[2 + i])); }

float Q4_0(const uint8_t* b, uint64_t i) {
  return Half(b) * static_cast<float>(Nibble(b + 2, i) - 8);
}

float Q4_1(const uint8_t* b, uint64_t i) {
  return Half(b) * static_cast<float>(Nibble(b + 4, i)) + Half(b + 2);
}

float Q5_0(const uint8_t* b, uint64_t i) {
  return Half(b) * static_cast<float>((Nibble(b + 6, i) | FifthBit(b + 2, i)) - 16);
}

float Q5_1(const uint8_t* b, uint64_t i) {
  return Half(b) * static_cast<float>(Nibble(b + 8, i) | FifthBit(b + 4, i)) + Half(b + 2);
}

// d · factor · code − m · factor of the K types' groups of 32; `factors` are their 12 bytes.
float Grouped(const uint8_t* b, const uint8_t* factors, uint64_t group, int code) {
  int scale = 0;
  int minimum = 0;
  if (group < 4) {
    scale = factors[group] & 63;
    minimum = factors[group + 4] & 63;
  } else {
    scale = (factors[group + 4] & 15) | ((factors[group - 4] >> 6) << 4);
    minimum = (factors[group + 4] >> 4) | ((factors[group] >> 6) << 4);
  }
  return Half(b) * static_cast<float>(scale) * static_cast<float>(code) -
         Half(b + 2) * static_cast<float>(minimum);
}

float Q4_K(const uint8_t* b, uint64_t i) {
  const uint64_t group = i / 32;
  const uint8_t byte = b[16 + group / 2 * 32 + i % 32];
  return Grouped(b, b + 4, group, group % 2 == 0 ? byte & 15 : byte >> 4);
}

float Q5_K(const uint8_t* b, uint64_t i) {
  const uint64_t group = i / 32;
  const uint8_t byte = b[48 + group / 2 * 32 + i % 32];
  const int fifth = ((b[16 + i % 32] >> group) & 1) << 4;
  return Grouped(b, b + 4, group, (group % 2 == 0 ? byte & 15 : byte >> 4) | fifth);
}

float Q6_K(const uint8_t* b, uint64_t i) {
  const uint64_t half = i / 128;
  const uint64_t quarter = i % 128 / 32;
  const uint8_t byte = b[64 * half + 32 * (quarter % 2) + i % 32];
  const int low = quarter < 2 ? byte & 15 : byte >> 4;
  const int high = (b[128 + 32 * half + i % 32] >> (2 * quarter)) & 3;
  const float scale = Half(b + 208) * static_cast<float>(Signed(b[192 + i / 16]));
  return scale * static_cast<float>((low | (high << 4)) - 32);
}

float F32(const uint8_t* b, uint64_t) {
  float value = 0;
  std::memcpy(&value, b, sizeof(value));
  return value;
}

float F16(const uint8_t* b, uint64_t) { return Half(b); }

float BF16(const uint8_t* b, uint64_t) {
  uint16_t bits = 0;
  std::memcpy(&bits, b, sizeof(bits));
  return FloatFromBf16(bits);
}

using DecodeOne = float (*)(const uint8_t* block, uint64_t i);

DecodeOne DecoderOf(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return F32;
    case WeightType::kF16:
      return F16;
    case WeightType::kBF16:
      return BF16;
    case WeightType::kQ8_0:
      return Q8_0;
    case WeightType::kQ4_0:
      return Q4_0;
    case WeightType::kQ4_1:
      return Q4_1;
    case WeightType::kQ5_0:
      return Q5_0;
    case WeightType::kQ5_1:
      return Q5_1;
    case WeightType::kQ4_K:
      return Q4_K;
    case WeightType::kQ5_K:
      return Q5_K;
    case WeightType::kQ6_K:
      return Q6_K;
  }
  KVANT_CHECK(false);
}

}  // namespace

void DequantizeReference(WeightType type, const uint8_t* row, uint64_t elements, float* out) {
  const uint64_t block_elements = WeightBlockElements(type);
  KVANT_CHECK(elements % block_elements == 0);
  const DecodeOne decode = DecoderOf(type);
  for (uint64_t i = 0; i < elements; ++i) {
    out[i] = decode(row + i / block_elements * WeightBlockBytes(type), i % block_elements);
  }
}

}  // namespace kvant
