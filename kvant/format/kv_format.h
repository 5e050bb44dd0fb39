// How one layer keeps K and V: the vocabulary of formats, without any bytes or kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvant {

// Tokens of one sequence in one block: the unit of sealing, sharing and eviction.
inline constexpr uint32_t kBlockTokens = 64;

// How one number is stored. Integer codes are affine: value = offset + scale * code.
enum class Codec : uint8_t {
  kFp32,
  kBf16,
  kFp16,
  kFp8E4m3,  // OCP e4m3fn, largest 448
  kFp8E5m2,  // largest finite 57,344
  kInt8,
  kInt4,
  kInt2,
};

// Which values share one scale (and zero point).
enum class Granularity : uint8_t {
  kNone,       // no scale: 16- and 32-bit codecs
  kTensor,     // one per layer
  kHead,       // one per KV head
  kChannel,    // static: one per (KV head, channel); dynamic: the same within each block
  kTokenHead,  // one per (token, KV head)
  kGroup,      // one per `group` consecutive channels of one (token, KV head)
};

enum class ScaleSource : uint8_t {
  kUnit,     // 1.0 by decree
  kStatic,   // from the plan's ScaleSet
  kDynamic,  // computed from the values when they are quantized
};

// In how many bits scales and zero points are kept beside the codes (dynamic scales only).
enum class ScaleStorage : uint8_t {
  kFp16,        // scale in fp16, and the offset in fp16 if there is a zero point
  kFp32,        // vLLM's int8/fp8_per_token_head
  kFp32Packed,  // vLLM's int4_per_token_head: 4-bit zero point in the low mantissa bits of the
                // scale
};

// What is subtracted before quantizing and added back exactly when scores are computed (K only).
enum class Centering : uint8_t {
  kNone,
  kBiasRemoved,  // the RoPE'd bias of the K projection; used for 16-bit blocks of the plan as well
  kBlockMean,    // the mean over the block's tokens per channel, kept in fp16
};

// One of K and V.
struct StreamFormat {
  Codec codec = Codec::kBf16;
  Granularity granularity = Granularity::kNone;
  uint32_t group = 32;  // channels, used with kGroup only
  bool zero_point = false;
  ScaleSource source = ScaleSource::kUnit;
  ScaleStorage scale_storage = ScaleStorage::kFp16;
  Centering centering = Centering::kNone;
  bool hadamard = false;  // whole head_dim, before quantizing; Q is rotated too, output back
  // Range kept of [min, max] or absmax before quantizing, (0, 1]; values beyond are clipped.
  float clip = 1.0F;

  bool operator==(const StreamFormat&) const = default;
};

enum class WriteMode : uint8_t {
  kSealed,  // tokens stay in 16 bits until their block is full, then are quantized in one pass
  kAppend,  // each token is quantized as it arrives and read back quantized at once
};

// How the query or the probabilities are rounded before they meet the cache, to predict a fleet.
enum class Rounding : uint8_t { kNone, kFp8E4m3 };

struct KvFormat {
  StreamFormat k;
  StreamFormat v;
  WriteMode write = WriteMode::kSealed;
  // The first tokens of a sequence, and the last ones besides the current block, that stay in
  // 16 bits. Both round up to whole blocks. Sealed formats only.
  uint32_t sink_tokens = 0;
  uint32_t recent_tokens = 0;
  Rounding query_rounding = Rounding::kNone;        // q=fp8_e4m3, scaled by K's scale
  Rounding probability_rounding = Rounding::kNone;  // p=fp8_e4m3

  bool operator==(const KvFormat&) const = default;

  uint32_t sink_blocks() const { return (sink_tokens + kBlockTokens - 1) / kBlockTokens; }
  uint32_t recent_blocks() const { return (recent_tokens + kBlockTokens - 1) / kBlockTokens; }
};

uint32_t CodecBits(Codec codec);
bool IsQuantized(Codec codec);             // 8 bits or fewer
bool IsQuantized(const KvFormat& format);  // K or V is
bool NeedsStaticScales(const KvFormat& format);

// The codec of 16-bit blocks (open, sink and recent ones) of a format's K or V: fp32 where the
// stream is fp32, fp16 where it is fp16, else bf16.
Codec OpenCodec(const StreamFormat& stream);

// Parses a format: a name (`bf16`, `int8`, `fp8_e4m3`, `int8_per_token_head`, …) or the full
// grammar `k=…,v=…,…` of docs/formats.md. Throws Error{kUsage} that says which part is wrong and
// what may stand there; refuses what cannot be (append with a scale that spans tokens).
KvFormat ParseKvFormat(std::string_view text);

// The canonical spelling: a name where one fits exactly, else the full grammar.
// ParseKvFormat(ToString(f)) == f.
std::string ToString(const KvFormat& format);

// Throws Error{kUsage} if the format contradicts itself or does not fit head_dim (a group that
// does not divide it, a Hadamard size that does not exist).
void ValidateKvFormat(const KvFormat& format, uint32_t head_dim);

// Stored bits per value of one stream, scales and zero points included, in a sealed (or appended)
// block. Static scales cost nothing per block.
double BitsPerValue(const StreamFormat& stream, uint32_t head_dim);

}  // namespace kvant
