#include "kvant/kernel/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/scalar.h"
#include "kvant/format/hadamard.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h: these are compiled once per target.
#include "hwy/contrib/math/math-inl.h"
#include "kvant/kernel/code_matmul-inl.h"

#ifndef KVANT_KERNEL_ATTENTION_ONCE_
#define KVANT_KERNEL_ATTENTION_ONCE_
namespace kvant {

// Query rows (queries x query heads of one KV head) that are worked on together.
inline constexpr size_t kMaxRows = 64;

// Consecutive queries of one sequence and one KV head, all within one block.
struct AttentionTile {
  const AttentionQueries* sequence;
  uint32_t kv_head;
  size_t first_query;
  size_t num_queries;
};

// Running softmax of a tile's rows over some blocks.
struct SoftmaxState {
  float* maximum;  // [rows]
  float* sum;      // [rows]
  float* output;   // [rows, head_dim], not yet divided by sum
};

// One thread's buffers, all [kMaxRows, max(head_dim, 64)] unless said otherwise.
struct TileBuffers {
  float* query;          // times softmax_scale
  float* rotated_query;  // the same after Hadamard, if K has it
  float* bias_angles;    // [rows, head_dim] cosine and sine coefficients of q · RoPE(bias)
  float* scratch;        // queries times channel scales, or probabilities times token scales
  float* scores;         // [rows, 64]
  float* sealed_output;  // output of sealed blocks in V's rotated space, if V has Hadamard
  float* temporary;
  float* output;   // the partition's
  float* total;    // the tile's
  float* scale;    // [max(head_dim, 64) ]
  float* offset;   // [max(head_dim, 64)]
  float* row_sum;  // [kMaxRows] sum of the query's elements
  float* rotated_row_sum;
  float* maximum;
  float* sum;
  float* total_maximum;
  float* total_sum;
};

inline size_t TileBufferFloats(size_t head_dim) {
  const size_t width = std::max<size_t>(head_dim, kBlockTokens);
  return 9 * kMaxRows * width + 2 * width + 6 * kMaxRows;
}

inline TileBuffers SplitTileBuffer(float* memory, size_t head_dim) {
  const size_t width = std::max<size_t>(head_dim, kBlockTokens);
  auto take = [&memory](size_t floats) {
    float* part = memory;
    memory += floats;
    return part;
  };
  TileBuffers b{};
  for (float** matrix : {&b.query, &b.rotated_query, &b.bias_angles, &b.scratch, &b.scores,
                         &b.sealed_output, &b.temporary, &b.output, &b.total}) {
    *matrix = take(kMaxRows * width);
  }
  b.scale = take(width);
  b.offset = take(width);
  for (float** rows :
       {&b.row_sum, &b.rotated_row_sum, &b.maximum, &b.sum, &b.total_maximum, &b.total_sum}) {
    *rows = take(kMaxRows);
  }
  return b;
}

}  // namespace kvant
#endif  // KVANT_KERNEL_ATTENTION_ONCE_

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

// What one item of work knows throughout.
struct TileContext {
  const AttentionShape& shape;
  const AttentionTile& tile;
  const TileBuffers& buffers;
  size_t group;  // query heads per KV head
  size_t rows;
  uint64_t first_position;
  uint64_t query_block;
};

uint64_t PositionOfRow(const TileContext& c, size_t row) {
  return c.first_position + row / c.group;
}

float SumOf(const float* values, size_t count) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec sum = hn::Zero(d);
  for (size_t i = 0; i < count; i += lanes) sum = hn::Add(sum, hn::LoadU(d, values + i));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

float DotOf(const float* a, const float* b, size_t count) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec sum = hn::Zero(d);
  for (size_t i = 0; i < count; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void AddTo(float* values, size_t count, float addend) {
  const FloatTag d;
  const FloatVec v = hn::Set(d, addend);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, values + i), v), d, values + i);
  }
}

void ScaleBy(float* values, size_t count, float factor) {
  const FloatTag d;
  const FloatVec v = hn::Set(d, factor);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), v), d, values + i);
  }
}

// out[i] = a[i] * b[i]
void Product(const float* a, const float* b, size_t count, float* out) {
  const FloatTag d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
}

// out[i] += a[i] * b[i]
void AddProduct(const float* a, const float* b, size_t count, float* out) {
  const FloatTag d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, out + i)), d,
               out + i);
  }
}

// out[i] += factor * b[i]
void AddScaled(float factor, const float* b, size_t count, float* out) {
  const FloatTag d;
  const FloatVec v = hn::Set(d, factor);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::MulAdd(v, hn::LoadU(d, b + i), hn::LoadU(d, out + i)), d, out + i);
  }
}

// --- Scales ------------------------------------------------------------------------------------

void LoadHalves(const uint8_t* halves, size_t count, float* out) {
  for (size_t i = 0; i < count; i += hn::Lanes(FloatTag())) {
    hn::StoreU(Decode<CodeType::kFp16>::Load(halves, i), FloatTag(), out + i);
  }
}

// `count` dynamic scales from index `first`, and the offsets that go with them: a value is
// offset + scale * code, the code's centre already folded into the offset.
void LoadDynamicScales(const StreamLayout& layout, const uint8_t* record, size_t first,
                       size_t count, float* scale, float* offset) {
  const StreamFormat& format = layout.format;
  if (format.scale_storage == ScaleStorage::kFp16) {
    LoadHalves(record + layout.scale_offset + 2 * first, count, scale);
  } else {
    std::memcpy(scale, record + layout.scale_offset + 4 * first, 4 * count);
  }
  if (format.scale_storage == ScaleStorage::kFp32Packed) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t packed = 0;
      std::memcpy(&packed, &scale[i], 4);
      const auto zero = static_cast<float>(packed & 0xFU);
      packed &= ~0xFU;
      std::memcpy(&scale[i], &packed, 4);
      offset[i] = -zero * scale[i];
    }
  } else if (!format.zero_point) {
    for (size_t i = 0; i < count; ++i) offset[i] = -layout.code_centre * scale[i];
  } else if (format.scale_storage == ScaleStorage::kFp16) {
    LoadHalves(record + layout.offset_offset + 2 * first, count, offset);
  } else {
    std::memcpy(offset, record + layout.offset_offset + 4 * first, 4 * count);
  }
}

// The one scale of a stream that has only one per head; 1 where there is none.
float SingleScale(const StreamFormat& format, std::span<const float> static_scale) {
  return format.source == ScaleSource::kStatic ? static_scale[0] : 1.0F;
}

// scale and offset per channel, static or dynamic.
void LoadChannelScales(const StreamLayout& layout, std::span<const float> static_scale,
                       const uint8_t* record, size_t head_dim, float* scale, float* offset) {
  if (layout.format.source == ScaleSource::kDynamic) {
    LoadDynamicScales(layout, record, 0, head_dim, scale, offset);
    return;
  }
  for (size_t d = 0; d < head_dim; ++d) {
    scale[d] = static_scale[d];
    offset[d] = -layout.code_centre * scale[d];
  }
}

// --- Scores ------------------------------------------------------------------------------------

// scores[r][t] = q[r] · K[t] for the 64 tokens of one record, everything but the removed bias.
void ScoreRecord(const TileContext& c, const StreamLayout& layout,
                 std::span<const float> static_scale, const uint8_t* record) {
  const StreamFormat& format = layout.format;
  const TileBuffers& b = c.buffers;
  const size_t head_dim = c.shape.head_dim;
  const float* query = format.hadamard ? b.rotated_query : b.query;
  const float* query_sum = format.hadamard ? b.rotated_row_sum : b.row_sum;
  MatmulShape shape = {head_dim, head_dim, layout.row_bytes, kBlockTokens};
  std::fill_n(b.scores, c.rows * kBlockTokens, 0.0F);

  const bool dynamic = format.source == ScaleSource::kDynamic;
  if (format.granularity == Granularity::kChannel) {
    LoadChannelScales(layout, static_scale, record, head_dim, b.scale, b.offset);
    for (size_t r = 0; r < c.rows; ++r) {
      Product(query + r * head_dim, b.scale, head_dim, b.scratch + r * head_dim);
      const float constant = DotOf(query + r * head_dim, b.offset, head_dim);
      std::fill_n(b.scores + r * kBlockTokens, kBlockTokens, constant);
    }
    CodeMatmul(layout.code_type, shape, b.scratch, c.rows, record, kBlockTokens, b.scores);
  } else if (format.granularity == Granularity::kTokenHead && dynamic) {
    LoadDynamicScales(layout, record, 0, kBlockTokens, b.scale, b.offset);
    CodeMatmul(layout.code_type, shape, query, c.rows, record, kBlockTokens, b.scores);
    for (size_t r = 0; r < c.rows; ++r) {
      float* row = b.scores + r * kBlockTokens;
      Product(row, b.scale, kBlockTokens, row);
      AddScaled(query_sum[r], b.offset, kBlockTokens, row);
    }
  } else if (format.granularity == Granularity::kGroup) {
    shape.depth = format.group;
    for (size_t g = 0; g < head_dim / format.group; ++g) {
      const size_t channel = g * format.group;
      LoadDynamicScales(layout, record, g * kBlockTokens, kBlockTokens, b.scale, b.offset);
      std::fill_n(b.temporary, c.rows * kBlockTokens, 0.0F);
      CodeMatmul(layout.code_type, shape, query + channel, c.rows,
                 record + channel * layout.row_bytes, kBlockTokens, b.temporary);
      for (size_t r = 0; r < c.rows; ++r) {
        float* row = b.scores + r * kBlockTokens;
        AddProduct(b.temporary + r * kBlockTokens, b.scale, kBlockTokens, row);
        AddScaled(SumOf(query + r * head_dim + channel, format.group), b.offset, kBlockTokens, row);
      }
    }
  } else {
    const float scale = SingleScale(format, static_scale);
    CodeMatmul(layout.code_type, shape, query, c.rows, record, kBlockTokens, b.scores);
    if (scale != 1.0F) ScaleBy(b.scores, c.rows * kBlockTokens, scale);
    if (layout.code_centre != 0) {
      for (size_t r = 0; r < c.rows; ++r) {
        AddTo(b.scores + r * kBlockTokens, kBlockTokens,
              -layout.code_centre * scale * query_sum[r]);
      }
    }
  }
  if (format.centering == Centering::kBlockMean) {
    LoadHalves(record + layout.mean_offset, head_dim, b.scale);
    for (size_t r = 0; r < c.rows; ++r) {
      AddTo(b.scores + r * kBlockTokens, kBlockTokens,
            DotOf(b.query + r * head_dim, b.scale, head_dim));
    }
  }
}

// Adds q · RoPE(bias, position) for the block's 64 positions. The angle of position 64·block + t
// is a rotation by the block's start, folded into the coefficients, and one by t, the same table
// in every block.
void AddBiasScores(const TileContext& c, uint64_t block) {
  const RopeTable& rope = *c.tile.sequence->cache.rope;
  const size_t head_dim = c.shape.head_dim;
  const size_t half = head_dim / 2;
  const std::span<const float> cosine = rope.CosineAt(block * kBlockTokens);
  const std::span<const float> sine = rope.SineAt(block * kBlockTokens);
  for (size_t r = 0; r < c.rows; ++r) {
    const float* in = c.buffers.bias_angles + r * head_dim;
    float* out = c.buffers.scratch + r * head_dim;
    for (size_t i = 0; i < half; ++i) {
      out[i] = in[i] * cosine[i] + in[half + i] * sine[i];
      out[half + i] = in[half + i] * cosine[i] - in[i] * sine[i];
    }
  }
  const MatmulShape shape = {head_dim, head_dim, kBlockTokens * sizeof(float), kBlockTokens};
  CodeMatmul(CodeType::kFp32, shape, c.buffers.scratch, c.rows,
             reinterpret_cast<const uint8_t*>(rope.within_block.data()), kBlockTokens,
             c.buffers.scores);
}

// q · RoPE(bias, p) = Σ_i A_i cos(p θ_i) + B_i sin(p θ_i): A, then B, per row.
void PrepareBiasAngles(const TileContext& c) {
  const LayerCache& cache = c.tile.sequence->cache;
  const size_t head_dim = c.shape.head_dim;
  const size_t half = head_dim / 2;
  const float* bias = cache.k_bias.data() + size_t{c.tile.kv_head} * head_dim;
  const size_t stride = cache.rope->interleaved ? 2 : 1;
  const size_t partner = cache.rope->interleaved ? 1 : half;
  for (size_t r = 0; r < c.rows; ++r) {
    const float* q = c.buffers.query + r * head_dim;
    float* out = c.buffers.bias_angles + r * head_dim;
    for (size_t i = 0; i < half; ++i) {
      const float q0 = q[i * stride];
      const float q1 = q[i * stride + partner];
      const float b0 = bias[i * stride];
      const float b1 = bias[i * stride + partner];
      out[i] = q0 * b0 + q1 * b1;
      out[half + i] = q1 * b0 - q0 * b1;
    }
  }
}

// --- Softmax -----------------------------------------------------------------------------------

// Turns scores into probabilities relative to the running maximum, and rescales what was summed
// before. Returns the number of leading tokens that any row sees.
size_t UpdateSoftmax(const TileContext& c, uint64_t block, const SoftmaxState& state,
                     bool separate_sealed) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const size_t head_dim = c.shape.head_dim;
  const uint64_t start = block * kBlockTokens;
  size_t depth = 0;
  for (size_t r = 0; r < c.rows; ++r) {
    float* row = c.buffers.scores + r * kBlockTokens;
    const uint64_t position = PositionOfRow(c, r);
    const uint64_t window = c.shape.window_tokens;
    const uint64_t oldest = window != 0 && position >= window ? position - window + 1 : 0;
    const size_t first = oldest > start ? std::min<uint64_t>(oldest - start, kBlockTokens) : 0;
    const size_t end =
        position < start ? 0 : std::min<uint64_t>(position - start + 1, kBlockTokens);
    constexpr float kMasked = -std::numeric_limits<float>::infinity();
    std::fill(row, row + std::min(first, size_t{kBlockTokens}), kMasked);
    std::fill(row + end, row + kBlockTokens, kMasked);
    if (first >= end) {
      std::fill_n(row, kBlockTokens, 0.0F);
      continue;
    }
    depth = std::max(depth, end);

    FloatVec largest = hn::LoadU(d, row);
    for (size_t t = lanes; t < kBlockTokens; t += lanes) {
      largest = hn::Max(largest, hn::LoadU(d, row + t));
    }
    const float maximum = std::max(state.maximum[r], hn::GetLane(hn::MaxOfLanes(d, largest)));
    if (maximum != state.maximum[r]) {
      const float correction = std::exp(state.maximum[r] - maximum);  // 0 at the first block
      state.sum[r] *= correction;
      ScaleBy(state.output + r * head_dim, head_dim, correction);
      if (separate_sealed) {
        ScaleBy(c.buffers.sealed_output + r * head_dim, head_dim, correction);
      }
      state.maximum[r] = maximum;
    }
    const FloatVec shift = hn::Set(d, maximum);
    FloatVec sum = hn::Zero(d);
    for (size_t t = 0; t < kBlockTokens; t += lanes) {
      const FloatVec p = hn::Exp(d, hn::Sub(hn::LoadU(d, row + t), shift));
      sum = hn::Add(sum, p);
      hn::StoreU(p, d, row + t);
    }
    state.sum[r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  return depth;
}

// FlashAttention-3 casts exp(score - maximum + 8·ln 2) to e4m3, so that the largest is 256.
void RoundProbabilities(const TileContext& c) {
  for (size_t i = 0; i < c.rows * kBlockTokens; ++i) {
    float& p = c.buffers.scores[i];
    p = FloatFromFp8E4m3(Fp8E4m3FromFloat(p * 256.0F)) / 256.0F;
  }
}

// --- Output ------------------------------------------------------------------------------------

// output[r] += Σ_t p[r][t] · V[t] over the record's first `depth` tokens.
void AddValues(const TileContext& c, const StreamLayout& layout,
               std::span<const float> static_scale, const uint8_t* record, size_t depth,
               float* output) {
  const StreamFormat& format = layout.format;
  const TileBuffers& b = c.buffers;
  const size_t head_dim = c.shape.head_dim;
  const MatmulShape shape = {kBlockTokens, depth, layout.row_bytes, head_dim};
  const float* probabilities = b.scores;
  const bool by_token =
      format.granularity == Granularity::kTokenHead && format.source == ScaleSource::kDynamic;

  if (by_token || format.granularity == Granularity::kGroup) {
    const size_t channels = by_token ? head_dim : format.group;
    for (size_t g = 0; g < head_dim / channels; ++g) {
      LoadDynamicScales(layout, record, g * kBlockTokens, kBlockTokens, b.scale, b.offset);
      for (size_t r = 0; r < c.rows; ++r) {
        const float* p = probabilities + r * kBlockTokens;
        Product(p, b.scale, kBlockTokens, b.scratch + r * kBlockTokens);
        AddTo(output + r * head_dim + g * channels, channels, DotOf(p, b.offset, kBlockTokens));
      }
      // A group's columns start at a multiple of 16, so its codes start at a whole byte.
      CodeMatmul(layout.code_type, shape, b.scratch, c.rows,
                 record + g * channels * CodecBits(format.codec) / 8, channels,
                 output + g * channels);
    }
    return;
  }
  if (format.granularity == Granularity::kChannel) {
    LoadChannelScales(layout, static_scale, record, head_dim, b.scale, b.offset);
    std::fill_n(b.temporary, c.rows * head_dim, 0.0F);
    CodeMatmul(layout.code_type, shape, probabilities, c.rows, record, head_dim, b.temporary);
    for (size_t r = 0; r < c.rows; ++r) {
      const float sum = SumOf(probabilities + r * kBlockTokens, kBlockTokens);
      AddProduct(b.temporary + r * head_dim, b.scale, head_dim, output + r * head_dim);
      AddScaled(sum, b.offset, head_dim, output + r * head_dim);
    }
    return;
  }
  const float scale = SingleScale(format, static_scale);
  const float* factors = probabilities;
  if (scale != 1.0F) {
    std::copy_n(probabilities, c.rows * kBlockTokens, b.scratch);
    ScaleBy(b.scratch, c.rows * kBlockTokens, scale);
    factors = b.scratch;
  }
  if (layout.code_centre != 0) {
    for (size_t r = 0; r < c.rows; ++r) {
      AddTo(output + r * head_dim, head_dim,
            -layout.code_centre * SumOf(factors + r * kBlockTokens, kBlockTokens));
    }
  }
  CodeMatmul(layout.code_type, shape, factors, c.rows, record, head_dim, output);
}

// --- One tile ----------------------------------------------------------------------------------

// The query as FlashAttention-3 rounds it: e4m3 with K's scale where that is one number per head,
// else with the row's own.
void RoundQuery(float* row, size_t head_dim, const StreamFormat& k,
                std::span<const float> static_scale) {
  float scale = 1;
  if (k.source == ScaleSource::kStatic && static_scale.size() == 1) {
    scale = static_scale[0];
  } else if (k.source != ScaleSource::kUnit) {
    float largest = 0;
    for (size_t d = 0; d < head_dim; ++d) largest = std::max(largest, std::fabs(row[d]));
    scale = largest > 0 ? largest / kFp8E4m3Max : 1.0F;
  }
  for (size_t d = 0; d < head_dim; ++d) {
    row[d] = FloatFromFp8E4m3(Fp8E4m3FromFloat(row[d] / scale)) * scale;
  }
}

void PrepareQueries(const TileContext& c) {
  const size_t head_dim = c.shape.head_dim;
  const AttentionQueries& sequence = *c.tile.sequence;
  const KvFormat& format = sequence.cache.layout->format;
  for (size_t r = 0; r < c.rows; ++r) {
    const size_t query = c.tile.first_query + r / c.group;
    const size_t head = c.tile.kv_head * c.group + r % c.group;
    const float* from = sequence.queries + (query * c.shape.num_query_heads + head) * head_dim;
    float* plain = c.buffers.query + r * head_dim;
    std::copy_n(from, head_dim, plain);
    if (format.query_rounding == Rounding::kFp8E4m3) {
      RoundQuery(plain, head_dim, format.k,
                 HeadScales(sequence.cache.k_scales, *sequence.cache.layout, c.tile.kv_head));
    }
    ScaleBy(plain, head_dim, c.shape.softmax_scale);
    c.buffers.row_sum[r] = SumOf(plain, head_dim);
    if (format.k.hadamard) {
      float* rotated = c.buffers.rotated_query + r * head_dim;
      std::copy_n(plain, head_dim, rotated);
      ApplyHadamard(std::span(rotated, head_dim));
      c.buffers.rotated_row_sum[r] = SumOf(rotated, head_dim);
    }
  }
  if (format.k.centering == Centering::kBiasRemoved) PrepareBiasAngles(c);
}

void AttendBlock(const TileContext& c, uint64_t block, const SoftmaxState& state) {
  const LayerCache& cache = c.tile.sequence->cache;
  const LayerLayout& layout = *cache.layout;
  const uint32_t head = c.tile.kv_head;
  const bool open = SeesOpenForm(layout.format, block, c.query_block);
  const bool rotated_values = layout.format.v.hadamard;
  ScoreRecord(c, open ? layout.k_open : layout.k_sealed, HeadScales(cache.k_scales, layout, head),
              open ? OpenK(cache, block, head) : SealedK(cache, block, head));
  if (layout.format.k.centering == Centering::kBiasRemoved) AddBiasScores(c, block);
  const size_t depth = UpdateSoftmax(c, block, state, rotated_values);
  if (depth == 0) return;
  if (layout.format.probability_rounding == Rounding::kFp8E4m3) RoundProbabilities(c);
  AddValues(c, open ? layout.v_open : layout.v_sealed, HeadScales(cache.v_scales, layout, head),
            open ? OpenV(cache, block, head) : SealedV(cache, block, head), depth,
            rotated_values && !open ? c.buffers.sealed_output : state.output);
}

void AttendPartition(const TileContext& c, uint64_t first_block, uint64_t end_block,
                     const SoftmaxState& state) {
  const size_t head_dim = c.shape.head_dim;
  const bool rotated_values = c.tile.sequence->cache.layout->format.v.hadamard;
  std::fill_n(state.maximum, c.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, c.rows, 0.0F);
  std::fill_n(state.output, c.rows * head_dim, 0.0F);
  if (rotated_values) std::fill_n(c.buffers.sealed_output, c.rows * head_dim, 0.0F);
  for (uint64_t block = first_block; block < end_block; ++block) AttendBlock(c, block, state);
  if (!rotated_values) return;
  for (size_t r = 0; r < c.rows; ++r) {
    float* rotated = c.buffers.sealed_output + r * head_dim;
    InvertHadamard(std::span(rotated, head_dim));
    AddScaled(1.0F, rotated, head_dim, state.output + r * head_dim);
  }
}

void MergeState(size_t rows, size_t head_dim, const SoftmaxState& from, const SoftmaxState& into) {
  for (size_t r = 0; r < rows; ++r) {
    const float maximum = std::max(from.maximum[r], into.maximum[r]);
    if (from.sum[r] == 0) continue;
    const float keep = into.sum[r] == 0 ? 0.0F : std::exp(into.maximum[r] - maximum);
    const float add = std::exp(from.maximum[r] - maximum);
    ScaleBy(into.output + r * head_dim, head_dim, keep);
    AddScaled(add, from.output + r * head_dim, head_dim, into.output + r * head_dim);
    into.sum[r] = into.sum[r] * keep + from.sum[r] * add;
    into.maximum[r] = maximum;
  }
}

TileContext MakeContext(const AttentionShape& shape, const AttentionTile& tile,
                        const TileBuffers& buffers) {
  const size_t group = shape.num_query_heads / shape.num_kv_heads;
  const uint64_t first_position = tile.sequence->first_position + tile.first_query;
  return {shape,
          tile,
          buffers,
          group,
          tile.num_queries * group,
          first_position,
          first_position / kBlockTokens};
}

// Blocks that any query of the tile sees.
void VisibleBlocks(const TileContext& c, uint64_t* first, uint64_t* end) {
  const uint64_t window = c.shape.window_tokens;
  const uint64_t oldest =
      window != 0 && c.first_position >= window ? c.first_position - window + 1 : 0;
  *first = oldest / kBlockTokens;
  *end = c.query_block + 1;
}

void WriteOutput(const TileContext& c, const SoftmaxState& total) {
  const size_t head_dim = c.shape.head_dim;
  const AttentionQueries& sequence = *c.tile.sequence;
  for (size_t r = 0; r < c.rows; ++r) {
    const size_t query = c.tile.first_query + r / c.group;
    const size_t head = c.tile.kv_head * c.group + r % c.group;
    float* to = sequence.output + (query * c.shape.num_query_heads + head) * head_dim;
    const FloatTag d;
    const FloatVec inverse = hn::Set(d, 1.0F / total.sum[r]);
    for (size_t i = 0; i < head_dim; i += hn::Lanes(d)) {
      hn::StoreU(hn::Mul(hn::LoadU(d, total.output + r * head_dim + i), inverse), d, to + i);
    }
  }
}

// The whole of a tile by one thread.
void AttendTileForTarget(const AttentionShape& shape, const AttentionTile& tile,
                         const TileBuffers& buffers) {
  const TileContext c = MakeContext(shape, tile, buffers);
  PrepareQueries(c);
  const SoftmaxState part = {buffers.maximum, buffers.sum, buffers.output};
  const SoftmaxState total = {buffers.total_maximum, buffers.total_sum, buffers.total};
  std::fill_n(total.maximum, c.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(total.sum, c.rows, 0.0F);
  std::fill_n(total.output, c.rows * shape.head_dim, 0.0F);
  uint64_t first = 0;
  uint64_t end = 0;
  VisibleBlocks(c, &first, &end);
  for (uint64_t p = first / kPartitionBlocks; p * kPartitionBlocks < end; ++p) {
    AttendPartition(c, std::max(first, p * kPartitionBlocks),
                    std::min(end, (p + 1) * kPartitionBlocks), part);
    MergeState(c.rows, shape.head_dim, part, total);
  }
  WriteOutput(c, total);
}

// One partition of a tile into `state`.
void AttendPartitionForTarget(const AttentionShape& shape, const AttentionTile& tile,
                              const TileBuffers& buffers, uint64_t partition,
                              const SoftmaxState& state) {
  const TileContext c = MakeContext(shape, tile, buffers);
  PrepareQueries(c);
  uint64_t first = 0;
  uint64_t end = 0;
  VisibleBlocks(c, &first, &end);
  AttendPartition(c, std::max(first, partition * kPartitionBlocks),
                  std::min(end, (partition + 1) * kPartitionBlocks), state);
}

// Combines a tile's partitions, `stride` floats apart in `partials`, in order.
void MergePartitionsForTarget(const AttentionShape& shape, const AttentionTile& tile,
                              const TileBuffers& buffers, const SoftmaxState* partitions,
                              size_t count) {
  const TileContext c = MakeContext(shape, tile, buffers);
  const SoftmaxState total = {buffers.total_maximum, buffers.total_sum, buffers.total};
  std::fill_n(total.maximum, c.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(total.sum, c.rows, 0.0F);
  std::fill_n(total.output, c.rows * shape.head_dim, 0.0F);
  for (size_t i = 0; i < count; ++i) MergeState(c.rows, shape.head_dim, partitions[i], total);
  WriteOutput(c, total);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(AttendTileForTarget);
HWY_EXPORT(AttendPartitionForTarget);
HWY_EXPORT(MergePartitionsForTarget);

AttentionWorkspace::AttentionWorkspace(uint32_t max_head_dim, size_t num_threads,
                                       size_t max_partials)
    : per_thread_(RoundUp(TileBufferFloats(max_head_dim), 16)),
      threads_(per_thread_ * num_threads),
      partials_(max_partials * (max_head_dim + 2)) {}

uint64_t AttentionWorkspace::Bytes(uint32_t max_head_dim, size_t num_threads, size_t max_partials) {
  return sizeof(float) * (RoundUp(TileBufferFloats(max_head_dim), 16) * num_threads +
                          max_partials * (max_head_dim + 2));
}

std::span<float> AttentionWorkspace::thread_buffer(size_t worker) {
  return std::span(threads_).subspan(worker * per_thread_, per_thread_);
}

uint64_t NumPartitions(const AttentionShape& shape, uint64_t position) {
  const uint64_t window = shape.window_tokens;
  const uint64_t oldest = window != 0 && position >= window ? position - window + 1 : 0;
  return position / kBlockTokens / kPartitionBlocks - oldest / kBlockTokens / kPartitionBlocks + 1;
}

namespace {

std::vector<AttentionTile> MakeTiles(const AttentionShape& shape,
                                     std::span<const AttentionQueries> sequences) {
  const size_t group = shape.num_query_heads / shape.num_kv_heads;
  KVANT_CHECK(group >= 1 && group <= kMaxRows);
  size_t queries_per_tile = 1;  // a power of two, so that tiles never cross a block
  while (queries_per_tile * 2 * group <= kMaxRows) queries_per_tile *= 2;
  std::vector<AttentionTile> tiles;
  for (const AttentionQueries& sequence : sequences) {
    for (size_t query = 0; query < sequence.count;) {
      const uint64_t position = sequence.first_position + query;
      const size_t count =
          std::min<size_t>(sequence.count - query, queries_per_tile - position % queries_per_tile);
      for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
        tiles.push_back({&sequence, head, query, count});
      }
      query += count;
    }
  }
  return tiles;
}

struct PartitionItem {
  size_t tile;
  uint64_t partition;
  SoftmaxState state;
};

// Splits every tile by partitions; empty if the partial results do not fit the workspace.
std::vector<PartitionItem> MakePartitionItems(const AttentionShape& shape,
                                              std::span<const AttentionTile> tiles,
                                              std::span<float> memory) {
  const size_t group = shape.num_query_heads / shape.num_kv_heads;
  std::vector<PartitionItem> items;
  size_t used = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const uint64_t first = tiles[i].sequence->first_position + tiles[i].first_query;
    const uint64_t window = shape.window_tokens;
    const uint64_t oldest = window != 0 && first >= window ? first - window + 1 : 0;
    const size_t rows = tiles[i].num_queries * group;
    const uint64_t end = first / kBlockTokens / kPartitionBlocks;
    for (uint64_t p = oldest / kBlockTokens / kPartitionBlocks; p <= end; ++p) {
      const size_t floats = rows * (shape.head_dim + 2);
      if (memory.size() - used < floats) return {};
      float* base = memory.data() + used;
      items.push_back({i, p, {base, base + rows, base + 2 * rows}});
      used += floats;
    }
  }
  return items;
}

}  // namespace

void Attend(const AttentionShape& shape, std::span<const AttentionQueries> sequences,
            ThreadPool& pool, AttentionWorkspace& workspace) {
  KVANT_CHECK(shape.head_dim % 16 == 0);
  const std::vector<AttentionTile> tiles = MakeTiles(shape, sequences);
  // Splitting tiles by partition gives the same bits; it is worth its extra pass only while there
  // are too few tiles to fill the threads.
  std::vector<PartitionItem> items;
  if (pool.num_threads() > 1 && tiles.size() < 8 * pool.num_threads()) {
    items = MakePartitionItems(shape, tiles, workspace.partials());
  }
  auto buffers = [&](size_t worker) {
    return SplitTileBuffer(workspace.thread_buffer(worker).data(), shape.head_dim);
  };
  if (items.size() <= tiles.size()) {
    pool.ParallelFor(tiles.size(), [&](size_t index, size_t worker) {
      HWY_DYNAMIC_DISPATCH(AttendTileForTarget)(shape, tiles[index], buffers(worker));
    });
    return;
  }
  pool.ParallelFor(items.size(), [&](size_t index, size_t worker) {
    const PartitionItem& item = items[index];
    HWY_DYNAMIC_DISPATCH(AttendPartitionForTarget)
    (shape, tiles[item.tile], buffers(worker), item.partition, item.state);
  });
  size_t next = 0;
  std::vector<SoftmaxState> states;
  for (size_t i = 0; i < tiles.size(); ++i) {
    states.clear();
    for (; next < items.size() && items[next].tile == i; ++next) {
      states.push_back(items[next].state);
    }
    HWY_DYNAMIC_DISPATCH(MergePartitionsForTarget)
    (shape, tiles[i], buffers(0), states.data(), states.size());
  }
}

}  // namespace kvant
#endif
