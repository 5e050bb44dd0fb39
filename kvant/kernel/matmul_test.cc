// Packed weights times activations: both passes, and the decoding under them.
#include "kvant/kernel/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/scalar.h"
#include "kvant/kernel/dequantize.h"
#include "kvant/kernel/gemv.h"

namespace kvant {
namespace {

constexpr WeightType kTypes[] = {
    WeightType::kF32,  WeightType::kF16,  WeightType::kBF16, WeightType::kQ8_0,
    WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1,
    WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

// Random codes with scales that are ordinary numbers: fp16 fields anywhere else would be NaN.
std::vector<uint8_t> RandomWeights(WeightType type, uint64_t rows, uint64_t columns,
                                   Random* random) {
  const uint64_t block_bytes = WeightBlockBytes(type);
  const uint64_t blocks = rows * columns / WeightBlockElements(type);
  std::vector<uint8_t> bytes(blocks * block_bytes);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random->Below(256));
  const auto put_half = [&](uint8_t* at) {
    const uint16_t half = Fp16FromFloat(static_cast<float>(random->Normal() * 0.02));
    std::memcpy(at, &half, 2);
  };
  for (uint64_t i = 0; i < blocks; ++i) {
    uint8_t* block = bytes.data() + i * block_bytes;
    switch (type) {
      case WeightType::kF32: {
        const auto value = static_cast<float>(random->Normal());
        std::memcpy(block, &value, 4);
        break;
      }
      case WeightType::kBF16: {
        const uint16_t value = Bf16FromFloat(static_cast<float>(random->Normal()));
        std::memcpy(block, &value, 2);
        break;
      }
      case WeightType::kQ6_K: put_half(block + 208); break;
      case WeightType::kF16:
      case WeightType::kQ8_0:
      case WeightType::kQ4_0:
      case WeightType::kQ5_0: put_half(block); break;
      default:
        put_half(block);
        put_half(block + 2);
    }
  }
  return bytes;
}

PackedMatrix Matrix(WeightType type, uint64_t rows, uint64_t columns,
                    const std::vector<uint8_t>& bytes) {
  return {type, rows, columns, bytes.data()};
}

std::vector<float> RandomInput(size_t size, Random* random) {
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random->Normal());
  return x;
}

// |error| allowed of a float32 dot product: its rounding grows with the sum of magnitudes.
void ExpectDot(const std::vector<float>& weights, const float* x, float got) {
  double exact = 0;
  double magnitude = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double product = static_cast<double>(weights[i]) * x[i];
    exact += product;
    magnitude += std::fabs(product);
  }
  EXPECT_NEAR(got, exact, magnitude * 1e-6 + 1e-12);
}

TEST(Gemv, EveryTypeMatchesFloat64) {
  Random random(1);
  ThreadPool pool(2);
  for (const WeightType type : kTypes) {
    for (const uint64_t columns : {256U, 512U, 768U}) {
      const std::vector<uint8_t> bytes = RandomWeights(type, 70, columns, &random);
      const PackedMatrix w = Matrix(type, 70, columns, bytes);
      const std::vector<float> x = RandomInput(3 * columns, &random);
      std::vector<float> out(3 * 70);
      MultiplyRows(w, x, 3, out.data(), pool);
      std::vector<float> row(columns);
      for (uint64_t r = 0; r < 70; ++r) {
        DequantizeRow(type, bytes.data() + r * w.row_bytes(), columns, row.data());
        for (size_t b = 0; b < 3; ++b) ExpectDot(row, x.data() + b * columns, out[b * 70 + r]);
      }
    }
  }
}

TEST(Gemv, BatchAndThreadsChangeNoBit) {
  Random random(2);
  ThreadPool one(1);
  ThreadPool two(2);
  for (const WeightType type : kTypes) {
    const uint64_t columns = WeightBlockElements(type) == 256 ? 1536 : 576;
    const std::vector<uint8_t> bytes = RandomWeights(type, 200, columns, &random);
    const PackedMatrix w = Matrix(type, 200, columns, bytes);
    const std::vector<float> x = RandomInput(8 * columns, &random);
    std::vector<float> batch(8 * 200);
    MultiplyRows(w, x, 8, batch.data(), two);
    for (size_t b = 0; b < 8; ++b) {
      std::vector<float> single(200);
      MultiplyRows(w, std::span(x).subspan(b * columns, columns), 1, single.data(), one);
      EXPECT_EQ(std::memcmp(single.data(), batch.data() + b * 200, 200 * sizeof(float)), 0)
          << WeightTypeName(type);
    }
  }
}

TEST(Matmul, MatchesFloat64) {
  Random random(3);
  ThreadPool pool(2);
  MatmulWorkspace workspace(2);
  for (const WeightType type : {WeightType::kF32, WeightType::kQ4_1, WeightType::kQ6_K}) {
    const uint64_t columns = 512;
    const std::vector<uint8_t> bytes = RandomWeights(type, 100, columns, &random);
    const PackedMatrix w = Matrix(type, 100, columns, bytes);
    const std::vector<float> x = RandomInput(70 * columns, &random);
    std::vector<float> out(70 * 100);
    Multiply(w, x.data(), 70, out.data(), pool, workspace);
    std::vector<float> row(columns);
    for (uint64_t r = 0; r < 100; ++r) {
      DequantizeRow(type, bytes.data() + r * w.row_bytes(), columns, row.data());
      for (const size_t t : {size_t{0}, size_t{63}, size_t{64}, size_t{69}}) {
        ExpectDot(row, x.data() + t * columns, out[t * 100 + r]);
      }
    }
  }
}

TEST(Matmul, ARowsResultDoesNotDependOnItsCompany) {
  Random random(4);
  ThreadPool one(1);
  ThreadPool two(2);
  MatmulWorkspace workspace(2);
  for (const uint64_t columns : {576U, 1536U, 896U, 4864U}) {
    const uint64_t rows = 130;
    const std::vector<uint8_t> bytes = RandomWeights(WeightType::kQ8_0, rows, columns, &random);
    const PackedMatrix w = Matrix(WeightType::kQ8_0, rows, columns, bytes);
    const size_t tokens = 200;
    const std::vector<float> x = RandomInput(tokens * columns, &random);
    std::vector<float> whole(tokens * rows);
    Multiply(w, x.data(), tokens, whole.data(), two, workspace);
    for (const size_t count : {1U, 7U, 64U, 65U, 150U}) {
      for (const size_t first : {0U, 1U, 33U, 50U}) {
        std::vector<float> part(count * rows);
        Multiply(w, x.data() + first * columns, count, part.data(), one, workspace);
        EXPECT_EQ(std::memcmp(part.data(), whole.data() + first * rows,
                              part.size() * sizeof(float)),
                  0)
            << columns << " columns, " << count << " rows from " << first;
      }
    }
  }
}

}  // namespace
}  // namespace kvant
