#include "kvant/kernel/rope_table.h"

#include <cmath>

#include "kvant/core/error.h"

namespace kvant {

RopeTable MakeRopeTable(double base, std::span<const float> frequency_factors, uint32_t head_dim,
                        bool interleaved, uint64_t positions) {
  const uint32_t half = head_dim / 2;
  KVANT_CHECK(head_dim > 0 && head_dim % 2 == 0);
  KVANT_CHECK(frequency_factors.empty() || frequency_factors.size() == half);
  RopeTable table;
  table.head_dim = head_dim;
  table.interleaved = interleaved;
  table.inverse_frequency.resize(half);
  table.cosine.resize(positions * half);
  table.sine.resize(positions * half);
  table.within_block.resize(size_t{head_dim} * kBlockTokens);
  for (uint32_t i = 0; i < half; ++i) {
    const double factor = frequency_factors.empty() ? 1.0 : frequency_factors[i];
    const double frequency = std::pow(base, -2.0 * i / head_dim) / factor;
    table.inverse_frequency[i] = static_cast<float>(frequency);
    for (uint64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      table.cosine[position * half + i] = static_cast<float>(std::cos(angle));
      table.sine[position * half + i] = static_cast<float>(std::sin(angle));
    }
    for (uint32_t position = 0; position < kBlockTokens; ++position) {
      const double angle = position * frequency;
      table.within_block[i * kBlockTokens + position] = static_cast<float>(std::cos(angle));
      table.within_block[(half + i) * kBlockTokens + position] =
          static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

uint64_t RopeTableBytes(uint32_t head_dim, uint64_t positions) {
  return (2 * positions + 1 + 2 * kBlockTokens) * (head_dim / 2) * sizeof(float);
}

void ApplyRope(const RopeTable& table, uint64_t position, std::span<float> vector) {
  const std::span<const float> cosine = table.CosineAt(position);
  const std::span<const float> sine = table.SineAt(position);
  const size_t half = cosine.size();
  const size_t stride = table.interleaved ? 2 : 1;
  const size_t partner = table.interleaved ? 1 : half;
  for (size_t i = 0; i < half; ++i) {
    const float a = vector[i * stride];
    const float b = vector[i * stride + partner];
    vector[i * stride] = a * cosine[i] - b * sine[i];
    vector[i * stride + partner] = b * cosine[i] + a * sine[i];
  }
}

}  // namespace kvant
