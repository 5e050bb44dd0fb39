// Where the bytes of one layer's K and V lie within a block, and so how many there are.
//
// A layer's part of a block holds one record per KV head, K's stream then V's:
//   K: codes [head_dim][64 tokens], scales, offsets, block mean
//   V: codes [64 tokens][head_dim], scales, offsets
// so that scores vectorise over tokens and outputs over channels, and a row of either is decoded
// straight into vector registers. Rows of 4- and 2-bit codes are packed in groups of 16 columns:
// byte b of a group's 8 (4) bytes holds columns b and b+8 (b, b+4, b+8, b+12), lowest bits first.
#pragma once

#include <cstdint>
#include <span>

#include "kvant/format/kv_format.h"
#include "kvant/kernel/kv_block.h"
#include "kvant/kernel/rope_table.h"

namespace kvant {

// How many bits the kernels decode, and whether codes are signed.
enum class CodeType : uint8_t {
  kFp32,
  kBf16,
  kFp16,
  kFp8E4m3,
  kFp8E5m2,
  kInt8,
  kUInt8,
  kUInt4,
  kUInt2
};

// One stream of one KV head within a block. Offsets count from the stream's first byte.
struct StreamLayout {
  StreamFormat format;
  CodeType code_type = CodeType::kBf16;
  // Subtracted from every code before scaling: 8 for symmetric 4-bit codes, 2 for 2-bit ones.
  float code_centre = 0;
  uint32_t row_bytes = 0;  // one row of codes
  uint64_t scale_offset = 0;
  uint64_t offset_offset = 0;
  uint64_t mean_offset = 0;
  uint64_t bytes = 0;
};

struct LayerLayout {
  KvFormat format;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  StreamLayout k_open, v_open;      // 16-bit (or fp32) form
  StreamLayout k_sealed, v_sealed;  // as the format says; append formats use only these
  uint64_t open_bytes = 0;          // this layer, all KV heads
  uint64_t sealed_bytes = 0;

  uint64_t open_head_bytes() const { return k_open.bytes + v_open.bytes; }
  uint64_t sealed_head_bytes() const { return k_sealed.bytes + v_sealed.bytes; }
};

// REQUIRES: a format that ValidateKvFormat accepts for head_dim; head_dim a multiple of 16.
LayerLayout MakeLayerLayout(const KvFormat& format, uint32_t num_kv_heads, uint32_t head_dim);

// One layer of one sequence's cache, as the kernels see it.
struct LayerCache {
  const LayerLayout* layout = nullptr;
  std::span<const BlockPointers> blocks;  // by block number
  uint64_t open_offset = 0;               // of this layer within an open block
  uint64_t sealed_offset = 0;
  // Static scales: 1, num_kv_heads or num_kv_heads*head_dim values, as the granularity says.
  std::span<const float> k_scales;
  std::span<const float> v_scales;
  // With Centering::kBiasRemoved: the K projection's bias [num_kv_heads * head_dim], and the RoPE
  // that K went through.
  std::span<const float> k_bias;
  const RopeTable* rope = nullptr;
};

// One KV head's part of a layer's static scales: one value, or one per channel.
std::span<const float> HeadScales(std::span<const float> scales, const LayerLayout& layout,
                                  uint32_t head);

// Whether a query in block `query_block` sees block `block` in its 16-bit form: its own block, the
// recent and the sink blocks of a sealed format. A matter of position alone, never of scheduling.
bool SeesOpenForm(const KvFormat& format, uint64_t block, uint64_t query_block);

// Address helpers. REQUIRES: the form exists.
inline uint8_t* OpenK(const LayerCache& cache, uint64_t block, uint32_t head) {
  return cache.blocks[block].open + cache.open_offset + head * cache.layout->open_head_bytes();
}
inline uint8_t* OpenV(const LayerCache& cache, uint64_t block, uint32_t head) {
  return OpenK(cache, block, head) + cache.layout->k_open.bytes;
}
inline uint8_t* SealedK(const LayerCache& cache, uint64_t block, uint32_t head) {
  return cache.blocks[block].sealed + cache.sealed_offset +
         head * cache.layout->sealed_head_bytes();
}
inline uint8_t* SealedV(const LayerCache& cache, uint64_t block, uint32_t head) {
  return SealedK(cache, block, head) + cache.layout->k_sealed.bytes;
}

}  // namespace kvant
