#include "kvant/format/reference_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvant/core/error.h"
#include "kvant/core/scalar.h"
#include "kvant/format/hadamard.h"

namespace kvant {

namespace {

// The values of one scale group, by their index in [tokens, head_dim].
using Group = std::vector<size_t>;

// A code stands for offset + scale * code.
struct AffineMap {
  double scale = 1;
  double offset = 0;
};

// How a scale group is read back, and how it is written: the same map but for packed scales.
struct GroupMap {
  AffineMap read;
  AffineMap write;
};

GroupMap Same(const AffineMap& map) { return {map, map}; }

bool IsInteger(Codec codec) {
  return codec == Codec::kInt8 || codec == Codec::kInt4 || codec == Codec::kInt2;
}

double RoundHalfAway(double x) { return std::round(x); }

constexpr double kLargestFp16 = 65504.0;

double Fp16Nearest(double x) {
  const double kept = std::clamp(x, -kLargestFp16, kLargestFp16);
  return FloatFromFp16(Fp16FromFloat(static_cast<float>(kept)));
}

// The largest fp16 value that is not above x, saturating: the nearest one or its lower neighbour.
double Fp16NotAbove(double x) {
  const double kept = std::clamp(x, -kLargestFp16, kLargestFp16);
  uint16_t bits = Fp16FromFloat(static_cast<float>(kept));
  if (FloatFromFp16(bits) <= kept) return FloatFromFp16(bits);
  if ((bits & 0x7FFFU) == 0) return FloatFromFp16(0x8001U);  // below zero: smallest negative
  bits = static_cast<uint16_t>((bits & 0x8000U) != 0 ? bits + 1 : bits - 1);
  return FloatFromFp16(bits);
}
double Fp16NotBelow(double x) { return -Fp16NotAbove(-x); }

std::vector<double> MakeFinite(std::span<const float> values, QuantizeCounts* counts) {
  std::vector<double> finite(values.begin(), values.end());
  for (double& x : finite) {
    if (std::fabs(x) <= static_cast<double>(kLargestUsable)) continue;
    ++counts->non_finite;
    x = std::isnan(x) ? 0.0 : std::copysign(static_cast<double>(kOverflowReplacement), x);
  }
  counts->values = values.size();
  return finite;
}

void RemoveMean(std::vector<double>* values, QuantizedMatrix* matrix) {
  matrix->mean.resize(matrix->head_dim);
  for (uint32_t d = 0; d < matrix->head_dim; ++d) {
    double sum = 0;
    for (uint32_t t = 0; t < matrix->tokens; ++t) sum += (*values)[t * matrix->head_dim + d];
    matrix->mean[d] = Fp16Nearest(sum / matrix->tokens);
    for (uint32_t t = 0; t < matrix->tokens; ++t) {
      (*values)[t * matrix->head_dim + d] -= matrix->mean[d];
    }
  }
}

// ApplyHadamard works in float32; the reference multiplies by its matrix in float64.
void Rotate(std::vector<double>* values, uint32_t head_dim, bool inverse) {
  std::vector<std::vector<float>> columns;  // H · e_j
  for (uint32_t j = 0; j < head_dim; ++j) {
    std::vector<float> unit(head_dim, 0.0F);
    unit[j] = 1.0F;
    ApplyHadamard(unit);
    columns.push_back(std::move(unit));
  }
  for (size_t start = 0; start < values->size(); start += head_dim) {
    const std::vector<double> in(values->begin() + static_cast<ptrdiff_t>(start),
                                 values->begin() + static_cast<ptrdiff_t>(start + head_dim));
    for (uint32_t i = 0; i < head_dim; ++i) {
      double sum = 0;
      for (uint32_t j = 0; j < head_dim; ++j)
        sum += in[j] * (inverse ? columns[i][j] : columns[j][i]);
      (*values)[start + i] = sum;
    }
  }
}

// Which values share a scale. For a tensor's or head's scale that is the whole matrix, which holds
// one head.
std::vector<Group> GroupsOf(const StreamFormat& stream, uint32_t tokens, uint32_t head_dim) {
  std::vector<Group> groups;
  const auto add = [&](uint32_t t0, uint32_t t1, uint32_t d0, uint32_t d1) {
    Group group;
    for (uint32_t t = t0; t < t1; ++t) {
      for (uint32_t d = d0; d < d1; ++d) group.push_back(size_t{t} * head_dim + d);
    }
    groups.push_back(std::move(group));
  };
  switch (stream.granularity) {
    case Granularity::kNone:
    case Granularity::kTensor:
    case Granularity::kHead:
      add(0, tokens, 0, head_dim);
      break;
    case Granularity::kChannel:
      for (uint32_t d = 0; d < head_dim; ++d) add(0, tokens, d, d + 1);
      break;
    case Granularity::kTokenHead:
      for (uint32_t t = 0; t < tokens; ++t) add(t, t + 1, 0, head_dim);
      break;
    case Granularity::kGroup:
      for (uint32_t t = 0; t < tokens; ++t) {
        for (uint32_t d = 0; d < head_dim; d += stream.group) add(t, t + 1, d, d + stream.group);
      }
      break;
  }
  return groups;
}

// Largest unsigned code of an affine format: 255, 15, 3.
double Levels(Codec codec) { return static_cast<double>((1U << CodecBits(codec)) - 1U); }

// Signed code range of a symmetric format.
double LowestCode(Codec codec) { return -(Levels(codec) + 1) / 2; }
double HighestCode(Codec codec) { return (Levels(codec) + 1) / 2 - 1; }

// vLLM's int4_per_token_head: an integer zero point within the codes, which takes the low four
// mantissa bits of the fp32 scale. Codes are made with the scale before, and read with the scale
// after these bits are cleared, as vLLM's writer and reader do.
GroupMap PackedFromRange(double low, double high, double levels) {
  const auto scale = static_cast<float>(std::max((high - low) / levels, 1e-6));
  const double zero = std::clamp(RoundHalfAway(-low / scale), 0.0, levels);
  uint32_t bits = 0;
  std::memcpy(&bits, &scale, sizeof(bits));
  bits &= ~15U;
  float kept = 0;
  std::memcpy(&kept, &bits, sizeof(kept));
  return {{kept, -zero * kept}, {scale, -zero * scale}};
}

GroupMap AffineFromRange(const StreamFormat& stream, double low, double high) {
  const double levels = Levels(stream.codec);
  if (stream.clip < 1) {
    const double centre = (low + high) / 2;
    const double half = (high - low) / 2 * static_cast<double>(stream.clip);
    low = centre - half;
    high = centre + half;
  }
  if (stream.scale_storage == ScaleStorage::kFp32Packed) {
    return PackedFromRange(low, high, levels);
  }
  AffineMap map;
  if (stream.scale_storage == ScaleStorage::kFp32) {
    map.offset = static_cast<float>(low);
    map.scale = static_cast<float>((high - low) / levels);
  } else {
    map.offset = Fp16NotAbove(low);
    map.scale = Fp16NotBelow((high - map.offset) / levels);
  }
  return Same(map);
}

// The largest value that a symmetric format's codes reach at a scale of 1.
double HighestValue(Codec codec) {
  if (codec == Codec::kFp8E4m3) return kFp8E4m3Max;
  if (codec == Codec::kFp8E5m2) return kFp8E5m2Max;
  return HighestCode(codec);
}

// Between the two largest codes: 416 and 448, 49,152 and 57,344.
double LargestFp8Step(Codec codec) { return codec == Codec::kFp8E4m3 ? 32 : 8192; }

GroupMap SymmetricFromExtreme(const StreamFormat& stream, double extreme) {
  const double kept = extreme * static_cast<double>(stream.clip);
  if (stream.granularity == Granularity::kGroup && stream.codec == Codec::kInt4) {
    // q4_0: the value of largest magnitude gets the lowest code, so the scale carries its sign.
    const double scale = kept / LowestCode(stream.codec);
    return Same({stream.scale_storage == ScaleStorage::kFp16 ? Fp16Nearest(scale)
                                                             : static_cast<float>(scale),
                 0});
  }
  const double scale = std::fabs(kept) / HighestValue(stream.codec);
  if (stream.scale_storage == ScaleStorage::kFp16) return Same({Fp16NotBelow(scale), 0});
  return Same({static_cast<float>(std::max(scale, 1e-6)), 0});
}

GroupMap MapOf(const StreamFormat& stream, const std::vector<double>& values, const Group& group,
               std::span<const float> static_scale, uint32_t head_dim) {
  if (stream.source == ScaleSource::kUnit) return Same({});
  if (stream.source == ScaleSource::kStatic) {
    return Same({static_scale[static_scale.size() == 1 ? 0 : group.front() % head_dim], 0});
  }
  double low = values[group.front()];
  double high = low;
  double extreme = 0;
  for (const size_t i : group) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
    if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
  }
  return stream.zero_point ? AffineFromRange(stream, low, high)
                           : SymmetricFromExtreme(stream, extreme);
}

// Counts a value that lies `excess` steps of its code beyond the last one. A dynamic scale is made
// to hold all values within a step (q4_0 has no code for +8), unless it clips or cannot be stored.
void CountOutside(const StreamFormat& stream, double excess, QuantizeCounts* counts) {
  if (excess <= 0) return;
  if (stream.source != ScaleSource::kDynamic) {
    ++counts->saturated;
  } else if (stream.clip < 1) {
    ++counts->clipped;
  } else if (excess > 1) {
    ++counts->saturated;
  }
}

int32_t CodeOf(const StreamFormat& stream, double value, const AffineMap& map,
               QuantizeCounts* counts) {
  // A scale below float32's normal numbers counts as zero.
  const bool normal =
      std::fabs(map.scale) >= static_cast<double>(std::numeric_limits<float>::min());
  const double scaled = normal ? (value - map.offset) / map.scale : 0;
  if (!IsInteger(stream.codec)) {
    const double excess = std::fabs(scaled) - HighestValue(stream.codec);
    CountOutside(stream, excess / LargestFp8Step(stream.codec), counts);
    const auto x = static_cast<float>(scaled);
    return stream.codec == Codec::kFp8E4m3 ? Fp8E4m3FromFloat(x) : Fp8E5m2FromFloat(x);
  }
  const double low = stream.zero_point ? 0 : LowestCode(stream.codec);
  const double high = stream.zero_point ? Levels(stream.codec) : HighestCode(stream.codec);
  const double code = RoundHalfAway(scaled);
  const double kept = std::clamp(code, low, high);
  CountOutside(stream, std::fabs(code - kept), counts);
  // Symmetric codes below 8 bits are stored unsigned.
  const double shift = stream.zero_point || stream.codec == Codec::kInt8 ? 0 : -low;
  return static_cast<int32_t>(kept + shift);
}

double ValueOfCode(const StreamFormat& stream, int32_t code) {
  switch (stream.codec) {
    case Codec::kFp8E4m3:
      return FloatFromFp8E4m3(static_cast<uint8_t>(code));
    case Codec::kFp8E5m2:
      return FloatFromFp8E5m2(static_cast<uint8_t>(code));
    default:
      break;
  }
  const bool shifted = !stream.zero_point && stream.codec != Codec::kInt8;
  return shifted ? code + LowestCode(stream.codec) : code;
}

int32_t WideCode(Codec codec, double value, QuantizeCounts* counts) {
  const auto x = static_cast<float>(value);
  if (codec == Codec::kBf16) return Bf16FromFloat(x);
  if (codec == Codec::kFp16) {
    if (std::fabs(value) > kLargestFp16) ++counts->saturated;
    return Fp16FromFloat(static_cast<float>(std::clamp(value, -kLargestFp16, kLargestFp16)));
  }
  int32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

double WideValue(Codec codec, int32_t code) {
  if (codec == Codec::kBf16) return FloatFromBf16(static_cast<uint16_t>(code));
  if (codec == Codec::kFp16) return FloatFromFp16(static_cast<uint16_t>(code));
  float x = 0;
  std::memcpy(&x, &code, sizeof(x));
  return x;
}

}  // namespace

QuantizedMatrix QuantizeReference(const StreamFormat& stream, std::span<const float> input,
                                  uint32_t tokens, uint32_t head_dim,
                                  std::span<const float> static_scale) {
  KVANT_CHECK(input.size() == size_t{tokens} * head_dim);
  KVANT_CHECK(stream.source != ScaleSource::kStatic || static_scale.size() == 1 ||
              static_scale.size() == head_dim);
  QuantizedMatrix matrix;
  matrix.tokens = tokens;
  matrix.head_dim = head_dim;
  matrix.codes.resize(input.size());
  matrix.scale.assign(input.size(), 1.0);
  matrix.offset.assign(input.size(), 0.0);
  std::vector<double> values = MakeFinite(input, &matrix.counts);
  if (!IsQuantized(stream.codec)) {
    for (size_t i = 0; i < values.size(); ++i) {
      matrix.codes[i] = WideCode(stream.codec, values[i], &matrix.counts);
    }
    return matrix;
  }
  if (stream.centering == Centering::kBlockMean) RemoveMean(&values, &matrix);
  if (stream.hadamard) Rotate(&values, head_dim, false);
  for (const Group& group : GroupsOf(stream, tokens, head_dim)) {
    const GroupMap map = MapOf(stream, values, group, static_scale, head_dim);
    for (const size_t i : group) {
      matrix.scale[i] = map.read.scale;
      matrix.offset[i] = map.read.offset;
      matrix.codes[i] = CodeOf(stream, values[i], map.write, &matrix.counts);
    }
  }
  return matrix;
}

std::vector<double> DequantizeReference(const StreamFormat& stream, const QuantizedMatrix& matrix) {
  std::vector<double> values(matrix.codes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = IsQuantized(stream.codec)
                    ? matrix.offset[i] + matrix.scale[i] * ValueOfCode(stream, matrix.codes[i])
                    : WideValue(stream.codec, matrix.codes[i]);
  }
  if (stream.hadamard) Rotate(&values, matrix.head_dim, true);
  for (size_t i = 0; i < values.size() && !matrix.mean.empty(); ++i) {
    values[i] += matrix.mean[i % matrix.head_dim];
  }
  return values;
}

}  // namespace kvant
