#include "kvant/format/reference_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kvant/core/error.h"
#include "kvant/core/scalar.h"
#include "kvant/format/hadamard.h"

namespace kvant {

namespace {

// The values of one scale group, by their index in [tokens, head_dim].
using Group = std::vector<size_t>;

struct AffineMap {
  double scale = 1;
  double offset = 0;
};

bool IsInteger(Codec codec) {
  return codec == Codec::kInt8 || codec == Codec::kInt4 || codec == Codec::kInt2;
}

double RoundHalfAway(double x) { return std::round(x); }

// The largest fp16 value that is not above x, saturating.
double Fp16NotAbove(double x) {
  const double clamped = std::clamp(x, -65504.0, 65504.0);
  double best = -65504.0;
  // Nearest fp16 and its lower neighbour: one of them is the answer.
  const uint16_t nearest = Fp16FromFloat(static_cast<float>(clamped));
  for (int step = -2; step <= 2; ++step) {
    const uint16_t magnitude = nearest & 0x7FFFU;
    const int moved = static_cast<int>(magnitude) + step;
    if (moved < 0 || moved > 0x7BFF) continue;
    for (const uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      const double value = FloatFromFp16(static_cast<uint16_t>(moved | sign));
      if (value <= clamped && value > best) best = value;
    }
  }
  return best;
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
    const double mean = std::clamp(sum / matrix->tokens, -65504.0, 65504.0);
    matrix->mean[d] = FloatFromFp16(Fp16FromFloat(static_cast<float>(mean)));
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

// Which values share a scale: every token and channel of one head here, since a tensor's or
// head's scale is one number for the whole matrix.
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

AffineMap AffineFromRange(const StreamFormat& stream, double low, double high) {
  const double levels = Levels(stream.codec);
  if (stream.clip < 1) {
    const double centre = (low + high) / 2;
    const double half = (high - low) / 2 * static_cast<double>(stream.clip);
    low = centre - half;
    high = centre + half;
  }
  AffineMap map;
  switch (stream.scale_storage) {
    case ScaleStorage::kFp16:
      map.offset = Fp16NotAbove(low);
      map.scale = Fp16NotBelow((high - map.offset) / levels);
      break;
    case ScaleStorage::kFp32:
      map.offset = static_cast<float>(low);
      map.scale = static_cast<float>((high - low) / levels);
      break;
    case ScaleStorage::kFp32Packed: {
      const auto scale = static_cast<float>(std::max((high - low) / levels, 1e-6));
      const double zero = std::clamp(RoundHalfAway(-low / scale), 0.0, levels);
      // The zero point takes the scale's low four mantissa bits.
      uint32_t bits = 0;
      std::memcpy(&bits, &scale, sizeof(bits));
      bits &= ~15U;
      float kept = 0;
      std::memcpy(&kept, &bits, sizeof(kept));
      map.scale = kept;
      map.offset = -zero * map.scale;
      break;
    }
  }
  return map;
}

AffineMap SymmetricFromExtreme(const StreamFormat& stream, double extreme) {
  AffineMap map;
  const double magnitude = std::fabs(extreme) * static_cast<double>(stream.clip);
  if (stream.granularity == Granularity::kGroup && stream.codec == Codec::kInt4) {
    // q4_0: the value of largest magnitude becomes code -8 exactly.
    map.scale = FloatFromFp16(Fp16FromFloat(static_cast<float>(
        std::clamp(extreme * static_cast<double>(stream.clip) / -8, -65504.0, 65504.0))));
    return map;
  }
  const double top = stream.codec == Codec::kFp8E4m3   ? kFp8E4m3Max
                     : stream.codec == Codec::kFp8E5m2 ? kFp8E5m2Max
                                                       : HighestCode(stream.codec);
  map.scale = stream.scale_storage == ScaleStorage::kFp16
                  ? Fp16NotBelow(magnitude / top)
                  : static_cast<float>(std::max(magnitude / top, 1e-6));
  return map;
}

AffineMap MapOf(const StreamFormat& stream, const std::vector<double>& values, const Group& group,
                std::span<const float> static_scale, uint32_t head_dim) {
  if (stream.source == ScaleSource::kUnit) return {};
  if (stream.source == ScaleSource::kStatic) {
    return {static_scale[static_scale.size() == 1 ? 0 : group.front() % head_dim], 0};
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

void CountOutside(const StreamFormat& stream, bool outside, QuantizeCounts* counts) {
  if (!outside) return;
  if (stream.source == ScaleSource::kDynamic) {
    counts->clipped += stream.clip < 1 ? 1 : 0;
  } else {
    ++counts->saturated;
  }
}

int32_t CodeOf(const StreamFormat& stream, double value, const AffineMap& map,
               QuantizeCounts* counts) {
  const double scaled = map.scale == 0 ? 0 : (value - map.offset) / map.scale;
  if (!IsInteger(stream.codec)) {
    const bool e4m3 = stream.codec == Codec::kFp8E4m3;
    CountOutside(stream, std::fabs(scaled) > (e4m3 ? kFp8E4m3Max : kFp8E5m2Max), counts);
    const auto x = static_cast<float>(scaled);
    return e4m3 ? Fp8E4m3FromFloat(x) : Fp8E5m2FromFloat(x);
  }
  const double low = stream.zero_point ? 0 : LowestCode(stream.codec);
  const double high = stream.zero_point ? Levels(stream.codec) : HighestCode(stream.codec);
  const double code = RoundHalfAway(scaled);
  CountOutside(stream, code < low || code > high, counts);
  const double kept = std::clamp(code, low, high);
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

int32_t WideCode(Codec codec, double value) {
  const auto x = static_cast<float>(value);
  if (codec == Codec::kBf16) return Bf16FromFloat(x);
  if (codec == Codec::kFp16) return Fp16FromFloat(std::clamp(x, -65504.0F, 65504.0F));
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
    for (size_t i = 0; i < values.size(); ++i) matrix.codes[i] = WideCode(stream.codec, values[i]);
    return matrix;
  }
  if (stream.centering == Centering::kBlockMean) RemoveMean(&values, &matrix);
  if (stream.hadamard) Rotate(&values, head_dim, false);
  for (const Group& group : GroupsOf(stream, tokens, head_dim)) {
    // A static scale per channel is looked up by channel, not by group of values.
    const AffineMap map = MapOf(stream, values, group, static_scale, head_dim);
    for (const size_t i : group) {
      matrix.scale[i] = map.scale;
      matrix.offset[i] = map.offset;
      matrix.codes[i] = CodeOf(stream, values[i], map, &matrix.counts);
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
