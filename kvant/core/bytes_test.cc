#include "kvant/core/bytes.h"

#include <gtest/gtest.h>

#include "kvant/core/error.h"

namespace kvant {
namespace {

TEST(Bytes, TextBecomesBytes) {
  EXPECT_EQ(ParseBytes("8GiB"), 8ULL << 30);
  EXPECT_EQ(ParseBytes("1.5KB"), 1500U);
  EXPECT_EQ(ParseBytes("640"), 640U);
  for (const char* bad : {"", "GiB", "-1GiB", "1 gigabyte", "1e30GiB", "nan", "8Gib"}) {
    EXPECT_THROW(ParseBytes(bad), Error) << bad;
  }
}

TEST(Bytes, TokensKnowKAsBinary) {
  EXPECT_EQ(ParseTokens("2K"), 2048U);
  EXPECT_EQ(ParseTokens("600"), 600U);
  EXPECT_EQ(FormatTokens(131072), "128K");
  EXPECT_EQ(FormatTokens(600), "600");
  EXPECT_THROW(ParseTokens("2X"), Error);
  EXPECT_THROW(ParseTokens("0.3"), Error);
}

TEST(Bytes, OverflowIsAnError) {
  EXPECT_EQ(CheckedAdd(2, 3, "x"), 5U);
  EXPECT_THROW(CheckedAdd(UINT64_MAX, 1, "sum"), Error);
  EXPECT_THROW(CheckedMul(1ULL << 40, 1ULL << 40, "product"), Error);
}

TEST(Bytes, PrintsThreeDigits) {
  EXPECT_EQ(FormatBytes(640), "640 B");
  EXPECT_EQ(FormatBytes(1536ULL << 20), "1.50 GiB");
}

}  // namespace
}  // namespace kvant
