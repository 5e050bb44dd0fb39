#include "kvant/kernel/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/scalar.h"
#include "kvant/format/hadamard.h"
#include "kvant/kernel/attention_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h: compiled once per target.
#include "kvant/kernel/attention_scores-inl.h"
#include "kvant/kernel/attention_softmax-inl.h"
#include "kvant/kernel/attention_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

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
