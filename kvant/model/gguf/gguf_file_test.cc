#include "kvant/model/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/random.h"
#include "kvant/model/gguf/gguf_builder.h"
#include "kvant/model/gguf/gguf_limits.h"

namespace kvant {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kHuge = 1ULL << 63;

// A small valid file with every kind of value and two tensors.
GgufBuilder SmallFile() {
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .Uint32("llama.block_count", 30)
      .Float32("llama.rope.freq_base", 1e5F)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .Strings("tokenizer.ggml.tokens", {"<s>", "a", "", std::string("\0\xff", 2)})
      .Int32s("tokenizer.ggml.token_type", {3, 1, 1, -6})
      .Float32s("tokenizer.ggml.scores", {0.0F, -1.5F, 2.0F, 1e-9F})
      .FloatTensor("norm.weight", {3}, std::vector<float>{1, 2, 3})
      .Tensor("blk.0.weight", WeightType::kQ8_0, {64, 2}, std::vector<uint8_t>(4 * 34, 7));
  return builder;
}

GgufFile Parse(const GgufBuilder& builder) {
  return GgufFile::FromBytes(builder.Build(), "t.gguf");
}

// The error of `operation`; fails the test if there is none.
Error ErrorOf(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, "none");
}

// Expects that parsing fails with `code` and a message that names the file and `culprit`.
void ExpectRefused(const GgufBuilder& builder, ErrorCode code, const std::string& culprit,
                   const std::string& why) {
  const Error error = ErrorOf([&] { Parse(builder); });
  EXPECT_EQ(error.code(), code) << error.message();
  EXPECT_THAT(error.message(), AllOf(HasSubstr("t.gguf"), HasSubstr(culprit), HasSubstr(why)));
}

void ExpectInvalid(const GgufBuilder& builder, const std::string& culprit, const std::string& why) {
  ExpectRefused(builder, ErrorCode::kInvalidInput, culprit, why);
}

// A file in the test's temporary folder that is removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<uint8_t>& bytes)
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("kvant_gguf_" + std::to_string(::getpid()) + ".gguf")) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(GgufFile, GivesBackTheMetadataThatWasWritten) {
  for (const uint32_t version : {2U, 3U}) {
    GgufBuilder builder = SmallFile();
    builder.version = version;
    const GgufFile file = Parse(builder);
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.source(), "t.gguf");
    EXPECT_EQ(file.String("general.architecture"), "llama");
    EXPECT_EQ(file.Unsigned("llama.block_count"), 30U);
    EXPECT_EQ(file.Float("llama.rope.freq_base"), 1e5);
    EXPECT_TRUE(file.Bool("tokenizer.ggml.add_bos_token"));
    EXPECT_THAT(file.Strings("tokenizer.ggml.tokens"),
                ElementsAre("<s>", "a", "", std::string("\0\xff", 2)));
    EXPECT_THAT(file.Integers("tokenizer.ggml.token_type"), ElementsAre(3, 1, 1, -6));
    EXPECT_THAT(file.Floats("tokenizer.ggml.scores"), ElementsAre(0.0F, -1.5F, 2.0F, 1e-9F));
    EXPECT_TRUE(file.IsArray("tokenizer.ggml.scores"));
    EXPECT_FALSE(file.IsArray("llama.block_count"));
    EXPECT_EQ(file.metadata().size(), 7U);
  }
}

template <typename T>
void ExpectIntegerKept(GgufType type, T value) {
  GgufBuilder builder;
  builder.Raw("one", GgufBytes().Type(type).Number(value))
      .Raw("many", GgufBytes()
                       .Type(GgufType::kArray)
                       .Type(type)
                       .Number(uint64_t{2})
                       .Number(value)
                       .Number(T{5}));
  const GgufFile file = Parse(builder);
  EXPECT_EQ(file.Float("one"), static_cast<double>(value));
  EXPECT_THAT(file.Integers("many"), ElementsAre(static_cast<int64_t>(value), 5));
  if (value >= 0) {
    EXPECT_EQ(file.Unsigned("one"), static_cast<uint64_t>(value));
  }
}

TEST(GgufFile, ReadsEveryWidthOfInteger) {
  ExpectIntegerKept<uint8_t>(GgufType::kUint8, 255);
  ExpectIntegerKept<uint16_t>(GgufType::kUint16, 65535);
  ExpectIntegerKept<uint32_t>(GgufType::kUint32, 4294967295U);
  ExpectIntegerKept<uint64_t>(GgufType::kUint64, 1ULL << 62);
  ExpectIntegerKept<int8_t>(GgufType::kInt8, -128);
  ExpectIntegerKept<int16_t>(GgufType::kInt16, -32768);
  ExpectIntegerKept<int32_t>(GgufType::kInt32, std::numeric_limits<int32_t>::min());
  ExpectIntegerKept<int64_t>(GgufType::kInt64, -(1LL << 53));
}

TEST(GgufFile, ReadsDoublesAndArraysOfBooleans) {
  GgufBuilder builder;
  builder.Raw("d", GgufBytes().Type(GgufType::kFloat64).Number(1.25e300))
      .Raw("ds", GgufBytes()
                     .Type(GgufType::kArray)
                     .Type(GgufType::kFloat64)
                     .Number(uint64_t{1})
                     .Number(0.5))
      .Raw("bs", GgufBytes()
                     .Type(GgufType::kArray)
                     .Type(GgufType::kBool)
                     .Number(uint64_t{2})
                     .Number(uint8_t{1})
                     .Number(uint8_t{0}));
  const GgufFile file = Parse(builder);
  EXPECT_EQ(file.Float("d"), 1.25e300);
  EXPECT_THAT(file.Floats("ds"), ElementsAre(0.5F));
  EXPECT_THAT(file.Integers("bs"), ElementsAre(1, 0));
}

TEST(GgufFile, FallsBackOnlyWhereTheKeyIsMissing) {
  const GgufFile file = Parse(SmallFile());
  EXPECT_EQ(file.UnsignedOr("absent", 7), 7U);
  EXPECT_EQ(file.FloatOr("absent", 0.5), 0.5);
  EXPECT_EQ(file.StringOr("absent", "x"), "x");
  EXPECT_TRUE(file.BoolOr("absent", true));
  EXPECT_EQ(file.UnsignedOr("llama.block_count", 7), 30U);
  EXPECT_THROW(file.UnsignedOr("general.architecture", 7), Error);
  EXPECT_THROW(file.StringOr("llama.block_count", "x"), Error);
}

TEST(GgufFile, NamesTheKeyThatIsMissingOrOfAnotherType) {
  const GgufFile file = Parse(SmallFile());
  const auto expect = [](const std::function<void()>& read, const std::string& text) {
    const Error error = ErrorOf(read);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_THAT(error.message(), HasSubstr(text));
  };
  expect([&] { file.String("llama.vocab"); }, "metadata 'llama.vocab' is missing");
  expect([&] { file.Unsigned("general.architecture"); },
         "metadata 'general.architecture' is string, not an integer");
  expect([&] { file.Strings("tokenizer.ggml.scores"); },
         "metadata 'tokenizer.ggml.scores' is array of float32, not an array of strings");
  expect([&] { file.Bool("llama.block_count"); }, "'llama.block_count' is uint32, not a boolean");
  expect([&] { file.Unsigned("llama.rope.freq_base"); }, "is float32, not an integer");
  expect([&] { file.Float("tokenizer.ggml.add_bos_token"); }, "is bool, not a number");
  expect([&] { file.Get("output.weight"); }, "tensor 'output.weight' is missing");
}

TEST(GgufFile, RefusesANegativeNumberWhereACountIsMeant) {
  GgufBuilder builder;
  builder.Raw("count", GgufBytes().Type(GgufType::kInt32).Number(int32_t{-4}));
  const GgufFile file = Parse(builder);
  EXPECT_THAT(ErrorOf([&] { file.Unsigned("count"); }).message(),
              HasSubstr("metadata 'count' is -4, which is negative"));
}

TEST(GgufFile, GivesBackTensorsAndTheirBytes) {
  const GgufFile file = Parse(SmallFile());
  ASSERT_EQ(file.tensors().size(), 2U);
  const GgufTensor& norm = file.Get("norm.weight");
  EXPECT_EQ(norm.type, WeightType::kF32);
  EXPECT_THAT(norm.shape, ElementsAre(3));
  EXPECT_EQ(norm.bytes, 12U);
  EXPECT_EQ(norm.offset % 32, 0U);
  std::vector<float> values(3);
  file.ReadTensor(norm, std::span(reinterpret_cast<uint8_t*>(values.data()), 12));
  EXPECT_THAT(values, ElementsAre(1, 2, 3));

  const GgufTensor& packed = file.Get("blk.0.weight");
  EXPECT_EQ(packed.type, WeightType::kQ8_0);
  EXPECT_EQ(packed.num_elements(), 128U);
  EXPECT_EQ(packed.bytes, 4U * 34U);
  std::vector<uint8_t> bytes(packed.bytes);
  file.ReadTensor(packed, bytes);
  EXPECT_THAT(bytes, ::testing::Each(7));
  EXPECT_EQ(file.Find("blk.1.weight"), nullptr);
}

TEST(GgufFile, HonoursTheAlignmentThatTheFileSets) {
  GgufBuilder builder = SmallFile();
  builder.Uint32("general.alignment", 256);
  builder.alignment = 256;
  const GgufFile file = Parse(builder);
  EXPECT_EQ(file.Get("norm.weight").offset % 256, 0U);
  std::vector<uint8_t> bytes(file.Get("blk.0.weight").bytes);
  file.ReadTensor(file.Get("blk.0.weight"), bytes);
  EXPECT_THAT(bytes, ::testing::Each(7));
}

TEST(GgufFile, ReadsEveryWeightTypeAtItsSize) {
  for (uint32_t number = 0; number < 64; ++number) {
    const auto type = WeightTypeFromGgml(number);
    if (!type) continue;
    const uint64_t columns = 2 * WeightBlockElements(*type);
    const uint64_t bytes = 3 * 2 * WeightBlockBytes(*type);
    GgufBuilder builder;
    builder.Tensor("w", *type, {columns, 3}, std::vector<uint8_t>(bytes));
    EXPECT_EQ(Parse(builder).Get("w").bytes, bytes) << WeightTypeName(*type);
  }
}

TEST(GgufFile, RefusesAWrongMagic) {
  GgufBuilder builder = SmallFile();
  builder.magic = "GGML";
  ExpectInvalid(builder, "header", "not a GGUF file: it starts with 'GGML'");
  builder.magic = "\x1b[2J";
  ExpectInvalid(builder, "header", "it starts with '?[2J'");
  builder.magic = "version https://git-lfs.example/spec/v1";
  EXPECT_THAT(ErrorOf([&] { Parse(builder); }).hint(), HasSubstr("Git LFS"));
}

TEST(GgufFile, RefusesOtherVersions) {
  GgufBuilder builder = SmallFile();
  for (const uint32_t version : {0U, 1U, 4U, 0xFFFFFFFFU}) {
    builder.version = version;
    ExpectRefused(builder, ErrorCode::kUnsupported, "header",
                  "GGUF version " + std::to_string(version));
  }
}

TEST(GgufFile, RefusesBigEndianFiles) {
  GgufBuilder builder = SmallFile();
  builder.version = __builtin_bswap32(3);
  ExpectRefused(builder, ErrorCode::kUnsupported, "header", "big-endian GGUF version 3");
}

TEST(GgufFile, RefusesCountsThatTheFileCannotHold) {
  for (const uint64_t count : {uint64_t{1000}, kMaxGgufKeys}) {
    GgufBuilder builder = SmallFile();
    builder.num_keys = count;
    ExpectInvalid(builder, "metadata count", "claims " + std::to_string(count) + " items");
    builder = SmallFile();
    builder.num_tensors = count;
    ExpectInvalid(builder, "tensor count", "claims " + std::to_string(count) + " items");
  }
}

TEST(GgufFile, RefusesMoreKeysAndTensorsThanItsLimits) {
  for (const uint64_t count : {uint64_t{65537}, kHuge, ~uint64_t{0}}) {
    GgufBuilder builder = SmallFile();
    builder.num_keys = count;
    ExpectInvalid(builder, "metadata count is " + std::to_string(count), "at most 65536");
    builder = SmallFile();
    builder.num_tensors = count;
    ExpectInvalid(builder, "tensor count is " + std::to_string(count), "at most 65536");
  }
}

TEST(GgufFile, RefusesAFileCutAnywhereBeforeItsLastTensorEnds) {
  const std::vector<uint8_t> whole = SmallFile().Build();
  const GgufFile file = GgufFile::FromBytes(whole, "whole");
  const GgufTensor& last = file.tensors().back();
  const uint64_t end = last.offset + last.bytes;
  for (uint64_t size = 0; size <= whole.size(); ++size) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<int64_t>(size));
    const auto parse = [&] { GgufFile::FromBytes(cut, "cut.gguf"); };
    if (size >= end) {
      EXPECT_NO_THROW(parse()) << size;
    } else {
      EXPECT_EQ(ErrorOf(parse).code(), ErrorCode::kInvalidInput) << size;
    }
  }
}

TEST(GgufFile, RefusesOnePartOfASplitModel) {
  GgufBuilder builder = SmallFile();
  builder.Raw("split.count", GgufBytes().Type(GgufType::kUint16).Number(uint16_t{3}));
  ExpectRefused(builder, ErrorCode::kUnsupported, "split.count", "one of 3 parts");
}

TEST(GgufFile, RefusesAKeyGivenTwice) {
  GgufBuilder builder = SmallFile();
  builder.Uint32("llama.block_count", 31);
  ExpectInvalid(builder, "metadata 'llama.block_count'", "given before");
}

TEST(GgufFile, RefusesKeysThatAreEmptyTooLongOrNotPrintable) {
  GgufBuilder builder;
  ExpectInvalid(GgufBuilder(builder).Uint32("", 1), "metadata key 0", "empty or not printable");
  ExpectInvalid(GgufBuilder(builder).Uint32("a\x1b[31m", 1), "key 'a?[31m'", "not printable");
  ExpectInvalid(GgufBuilder(builder).Uint32(std::string(1025, 'k'), 1), "metadata key 0",
                "claims 1025 bytes; at most 1024");
  EXPECT_NO_THROW(Parse(GgufBuilder(builder).Uint32(std::string(1024, 'k'), 1)));
}

TEST(GgufFile, RefusesAnUnknownValueType) {
  GgufBuilder builder;
  builder.Raw("k", GgufBytes().Number(uint32_t{13}).Number(uint64_t{0}));
  ExpectInvalid(builder, "metadata 'k'", "value type 13");
}

TEST(GgufFile, RefusesAnUnknownElementType) {
  GgufBuilder builder;
  builder.Raw("k", GgufBytes().Type(GgufType::kArray).Number(uint32_t{99}).Number(uint64_t{0}));
  ExpectInvalid(builder, "metadata 'k'", "element type 99");
}

TEST(GgufFile, RefusesABooleanThatIsNeither0Nor1) {
  GgufBuilder builder;
  builder.Raw("k", GgufBytes().Type(GgufType::kBool).Number(uint8_t{2}));
  ExpectInvalid(builder, "metadata 'k'", "boolean has the value 2");
}

TEST(GgufFile, RefusesAStringLongerThanTheFile) {
  for (const uint64_t size : {uint64_t{100}, uint64_t{1 << 20}}) {
    GgufBuilder builder;
    builder.Raw("k", GgufBytes().Type(GgufType::kString).Number(size));
    ExpectInvalid(builder, "metadata 'k'", "string needs " + std::to_string(size) + " bytes");
  }
}

TEST(GgufFile, RefusesAStringLengthThatWouldWrap) {
  for (const uint64_t size : {kMaxGgufStringBytes + 1, kHuge, ~uint64_t{0}}) {
    GgufBuilder builder;
    builder.Raw("k", GgufBytes().Type(GgufType::kString).Number(size));
    ExpectInvalid(builder, "metadata 'k'", "string claims " + std::to_string(size) + " bytes");
  }
}

TEST(GgufFile, RefusesAnArrayLongerThanTheFile) {
  const uint64_t counts[] = {1000, 1 << 20, kHuge, ~uint64_t{0}};
  for (const GgufType type : {GgufType::kUint8, GgufType::kFloat32, GgufType::kString,
                              GgufType::kUint64, GgufType::kBool}) {
    for (const uint64_t count : counts) {
      GgufBuilder builder;
      builder.Raw("k", GgufBytes().Type(GgufType::kArray).Type(type).Number(count));
      ExpectInvalid(builder, "metadata 'k'", "array claims " + std::to_string(count) + " items");
    }
  }
}

TEST(GgufFile, RefusesMoreArrayElementsThanItsLimitForAllArraysTogether) {
  const auto array = [](uint64_t count) {
    return GgufBytes()
        .Type(GgufType::kArray)
        .Type(GgufType::kUint8)
        .Number(count)
        .Raw(std::string(count, '\1'));
  };
  GgufBuilder builder;
  builder.Raw("a", array(kMaxGgufArrayElements / 2)).Raw("b", array(kMaxGgufArrayElements / 2));
  EXPECT_NO_THROW(Parse(builder));
  builder.Raw("c", array(1));
  ExpectInvalid(builder, "metadata 'c'", "all arrays together may have 8388608");
}

TEST(GgufFile, RefusesAnArrayWithinAnArray) {
  GgufBuilder builder;
  builder.Raw("k", GgufBytes()
                       .Type(GgufType::kArray)
                       .Type(GgufType::kArray)
                       .Number(uint64_t{1})
                       .Type(GgufType::kUint8)
                       .Number(uint64_t{0}));
  ExpectInvalid(builder, "metadata 'k'", "array within an array");
}

TEST(GgufFile, RefusesAnIntegerElementBeyond63Bits) {
  GgufBuilder builder;
  builder.Raw(
      "k",
      GgufBytes().Type(GgufType::kArray).Type(GgufType::kUint64).Number(uint64_t{1}).Number(kHuge));
  ExpectInvalid(builder, "metadata 'k'", "exceeds 63 bits");
}

TEST(GgufFile, RefusesAHeaderBeyondItsLimitBeforeReadingOn) {
  // A sparse file, so that its five strings of 60 MiB cost no disk.
  constexpr uint64_t kString = 60ULL << 20;
  GgufBuilder builder;
  builder.num_keys = 5;
  TemporaryFile sparse(builder.Build());
  std::filesystem::resize_file(sparse.path(), 6 * kString);
  std::fstream out(sparse.path(), std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(24);
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    out << GgufBytes().String(key).Type(GgufType::kString).Number(kString).bytes();
    out.seekp(static_cast<std::streamoff>(kString), std::ios::cur);
  }
  out.close();
  const Error error = ErrorOf([&] { GgufFile::Open(sparse.path()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("metadata 'e'"), HasSubstr("beyond the 268435456 bytes")));
}

TEST(GgufFile, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  for (const uint32_t alignment : {0U, 3U, 33U, 0xFFFFFFFFU}) {
    GgufBuilder builder = SmallFile();
    builder.Uint32("general.alignment", alignment);
    ExpectInvalid(builder, "general.alignment", std::to_string(alignment) + ", no power of two");
  }
}

TEST(GgufFile, RefusesAnAlignmentOfAnotherType) {
  GgufBuilder builder = SmallFile();
  builder.Raw("general.alignment", GgufBytes().Type(GgufType::kUint64).Number(uint64_t{32}));
  ExpectInvalid(builder, "general.alignment", "is uint64, not uint32");
  builder = SmallFile();
  builder.String("general.alignment", "32");
  ExpectInvalid(builder, "general.alignment", "is string, not uint32");
}

TEST(GgufFile, RefusesTensorsThatALargeAlignmentPushesOutOfTheFile) {
  GgufBuilder builder = SmallFile();
  builder.Uint32("general.alignment", 1U << 31);
  ExpectInvalid(builder, "tensor 'norm.weight'", "data section at byte 2147483648 lie outside");
}

TEST(GgufFile, RefusesATensorDescribedTwice) {
  GgufBuilder builder = SmallFile();
  builder.FloatTensor("norm.weight", {3}, std::vector<float>{1, 2, 3});
  ExpectInvalid(builder, "tensor 'norm.weight'", "described twice");
}

TEST(GgufFile, RefusesTensorNamesThatAreEmptyTooLongOrNotPrintable) {
  GgufBuilder builder = SmallFile();
  builder.tensors[1].name = "";
  ExpectInvalid(builder, "tensor 1", "empty or not printable");
  builder.tensors[1].name = "a\nb";
  ExpectInvalid(builder, "tensor 1", "name 'a?b'");
  builder.tensors[1].name = std::string(65, 'n');
  ExpectInvalid(builder, "tensor 1", "claims 65 bytes; at most 64");
}

TEST(GgufFile, RefusesNoneOrTooManyDimensions) {
  for (const size_t dimensions : {0U, 5U, 200U}) {
    GgufBuilder builder = SmallFile();
    builder.tensors[0].shape.assign(dimensions, 1);
    ExpectInvalid(builder, "tensor 'norm.weight'", std::to_string(dimensions) + " dimensions");
  }
}

TEST(GgufFile, RefusesShapesWhoseProductOverflows) {
  GgufBuilder builder = SmallFile();
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{1ULL << 32, 1ULL << 32},
                                             {kHuge, 2},
                                             {1ULL << 62},
                                             {~0ULL, ~0ULL, 3},
                                             {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16}}) {
    builder.tensors[0].shape = shape;
    ExpectInvalid(builder, "tensor 'norm.weight'", "overflows 64 bits");
  }
}

TEST(GgufFile, RefusesAShapeWithoutElements) {
  GgufBuilder builder = SmallFile();
  builder.tensors[0].shape = {4, 0};
  ExpectInvalid(builder, "tensor 'norm.weight'", "has no elements");
  builder.tensors[0].shape = {0};
  ExpectInvalid(builder, "tensor 'norm.weight'", "has no elements");
}

TEST(GgufFile, RefusesRowsThatAreNoWholeBlocks) {
  GgufBuilder builder = SmallFile();
  builder.tensors[1].shape = {48, 2};
  ExpectInvalid(builder, "tensor 'blk.0.weight'", "rows of 48 elements are no multiple");
}

TEST(GgufFile, RefusesUnknownWeightTypesAndListsTheSupportedOnes) {
  for (const uint32_t number : {4U, 16U, 39U, 255U, 0xFFFFFFFFU}) {
    GgufBuilder builder = SmallFile();
    builder.tensors[1].ggml_type = number;
    ExpectRefused(builder, ErrorCode::kUnsupported, "tensor 'blk.0.weight'",
                  "weight type " + std::to_string(number));
    EXPECT_THAT(ErrorOf([&] { Parse(builder); }).hint(),
                AllOf(HasSubstr(std::string(WeightTypeName(WeightType::kF32))),
                      HasSubstr(std::string(WeightTypeName(WeightType::kQ6_K)))));
  }
}

TEST(GgufFile, RefusesAnOffsetThatIsNotAligned) {
  GgufBuilder builder = SmallFile();
  builder.tensors[1].offset = 33;
  ExpectInvalid(builder, "tensor 'blk.0.weight'", "offset 33 is no multiple of the alignment 32");
}

TEST(GgufFile, RefusesTensorsOutsideTheFile) {
  // Beyond the end, past it by one block of alignment, and sums that wrap.
  for (const uint64_t offset : {uint64_t{1} << 20, uint64_t{64}, kHuge, ~uint64_t{31}}) {
    GgufBuilder builder = SmallFile();
    builder.tensors[1].offset = offset;
    ExpectInvalid(builder, "tensor 'blk.0.weight'", "outside the file");
  }
}

TEST(GgufFile, RefusesATensorLargerThanTheFile) {
  GgufBuilder builder = SmallFile();
  builder.tensors[1].shape = {64, 1ULL << 40};
  ExpectInvalid(builder, "tensor 'blk.0.weight'", "outside the file");
}

TEST(GgufFile, RefusesTensorsThatOverlap) {
  GgufBuilder builder = SmallFile();
  builder.FloatTensor("last.weight", {8}, std::vector<float>(8));
  builder.tensors[2].offset = 64;  // within blk.0.weight, which has bytes 32 to 168
  const Error error = ErrorOf([&] { Parse(builder); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(error.message(), HasSubstr("tensors 'blk.0.weight' and 'last.weight' overlap"));
  builder.tensors[2].offset = 32;  // the same first byte
  EXPECT_THAT(ErrorOf([&] { Parse(builder); }).message(), HasSubstr("overlap"));
}

TEST(GgufFile, SaysThatAPathDoesNotExist) {
  EXPECT_EQ(ErrorOf([] { GgufFile::Open("/nonexistent/model.gguf"); }).code(),
            ErrorCode::kNotFound);
}

TEST(GgufFile, NoticesThatTheFileChangedAfterItWasOpened) {
  const std::vector<uint8_t> bytes = SmallFile().Build();
  TemporaryFile temporary(bytes);
  const GgufFile file = GgufFile::Open(temporary.path());
  std::vector<uint8_t> data(file.tensors()[0].bytes);
  EXPECT_NO_THROW(file.ReadTensor(file.tensors()[0], data));
  std::filesystem::resize_file(temporary.path(), bytes.size() + 1);
  const Error error = ErrorOf([&] { file.ReadTensor(file.tensors()[0], data); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(error.message(), HasSubstr("changed while it was being read"));
  EXPECT_THROW(file.digest(), Error);
}

TEST(GgufFile, NoticesThatTheFileShrank) {
  TemporaryFile temporary(SmallFile().Build());
  const GgufFile file = GgufFile::Open(temporary.path());
  std::filesystem::resize_file(temporary.path(), 40);
  std::vector<uint8_t> data(file.tensors()[1].bytes);
  EXPECT_EQ(ErrorOf([&] { file.ReadTensor(file.tensors()[1], data); }).code(), ErrorCode::kIo);
}

TEST(GgufFile, DigestIsTheSha256OfTheWholeFile) {
  GgufBuilder builder = SmallFile();
  builder.FloatTensor("large", {1'000'000}, std::vector<float>(1'000'000, 0.25F));
  const std::vector<uint8_t> bytes = builder.Build();
  EXPECT_EQ(GgufFile::FromBytes(bytes, "t").digest(), Sha256Of(std::span(bytes)));
  TemporaryFile temporary(bytes);
  EXPECT_EQ(GgufFile::Open(temporary.path()).digest(), Sha256Of(std::span(bytes)));
}

TEST(GgufFile, ReadsStringsAcrossTheBordersOfItsBuffer) {
  Random random(7);
  std::vector<std::string> tokens;
  for (int i = 0; i < 4000; ++i) {
    tokens.emplace_back(random.Below(i % 500 == 0 ? 600'000 : 300),
                        static_cast<char>('a' + i % 26));
  }
  GgufBuilder builder;
  builder.Strings("tokens", tokens).Uint32("after", 5);
  const GgufFile file = Parse(builder);
  EXPECT_EQ(file.Strings("tokens"), tokens);
  EXPECT_EQ(file.Unsigned("after"), 5U);
}

// Ten times slower than measured, to hold on a busy machine and under sanitizers.
TEST(GgufFile, ReadsALargeVocabularyQuickly) {
  constexpr int kTokens = 150'000;
  std::vector<std::string> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back("token" + std::to_string(i));
  GgufBuilder builder;
  builder.Strings("tokenizer.ggml.tokens", tokens)
      .Strings("tokenizer.ggml.merges", tokens)
      .Float32s("tokenizer.ggml.scores", std::vector<float>(kTokens))
      .Int32s("tokenizer.ggml.token_type", std::vector<int32_t>(kTokens));
  const std::vector<uint8_t> bytes = builder.Build();
  const auto start = std::chrono::steady_clock::now();
  const GgufFile file = GgufFile::FromBytes(bytes, "t");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(file.Strings("tokenizer.ggml.merges").back(), "token149999");
  EXPECT_LT(seconds.count(), 3.0);
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1e3));
}

// Reads everything that the file offers.
void ReadAll(const GgufFile& file) {
  for (const auto& entry : file.metadata()) {
    if (entry.second.type == GgufType::kString) file.String(entry.first);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    std::vector<uint8_t> data(tensor.bytes);
    file.ReadTensor(tensor, data);
  }
}

TEST(GgufFile, DamagedFilesAreReadOrRefusedNeverWorse) {
  const std::vector<uint8_t> valid = SmallFile().Build();
  Random random(20261201);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> damaged = valid;
    const uint64_t flips = random.Below(4);
    for (uint64_t i = 0; i <= flips; ++i) {
      damaged[random.Below(damaged.size())] = static_cast<uint8_t>(random.Next());
    }
    if (random.Below(4) == 0) damaged.resize(random.Below(damaged.size()));
    try {
      ReadAll(GgufFile::FromBytes(damaged, "damaged"));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidInput ||
                  error.code() == ErrorCode::kUnsupported)
          << error.message();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 2000);
}

std::filesystem::path ModelPath(const std::string& name) {
  const char* folder = std::getenv("KVANT_MODELS");
  return std::filesystem::path(folder != nullptr ? folder : KVANT_SOURCE_DIR "/models") / name;
}

TEST(GgufFile, OpensARealModel) {
  const GgufFile file = GgufFile::Open(ModelPath("smollm2-135m.gguf"));
  EXPECT_EQ(file.String("general.architecture"), "llama");
  EXPECT_EQ(file.Unsigned("llama.block_count"), 30U);
  EXPECT_EQ(file.Strings("tokenizer.ggml.tokens").size(), 49152U);
  EXPECT_EQ(file.Integers("tokenizer.ggml.token_type").size(), 49152U);
  EXPECT_THAT(file.Get("token_embd.weight").shape, ElementsAre(576, 49152));
  EXPECT_THAT(file.Get("blk.29.attn_k.weight").shape, ElementsAre(576, 192));
  EXPECT_EQ(file.Get("blk.29.attn_k.weight").type, WeightType::kQ4_1);
  EXPECT_EQ(Hex(file.digest()), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

}  // namespace
}  // namespace kvant
