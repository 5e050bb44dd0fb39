#include "kvant/model/gguf/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/model/gguf/gguf_cursor.h"
#include "kvant/model/gguf/gguf_limits.h"

namespace kvant {

namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kOldestVersion = 2;   // version 1 had 32-bit lengths
constexpr uint32_t kNewestVersion = 3;
// A key's length, one byte of it, its type and a one-byte value.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kDigestChunkBytes = 1 << 20;

struct Impostor {
  std::string_view start;
  std::string_view hint;
};

// What people have when they think that they have a GGUF, by its first four bytes.
constexpr std::array<Impostor, 5> kImpostors = {
    {{"vers", "this looks like a Git LFS pointer; fetch the file that it points to"},
     {"<!DO", "this looks like a web page; download the file itself"},
     {"<htm", "this looks like a web page; download the file itself"},
     {std::string_view("PK\x03\x04", 4), "this is a ZIP archive; unpack it or convert to GGUF"},
     {"tjgg", "this is a GGML file from before GGUF; convert it to GGUF"}}};

void CheckMagic(GgufCursor* cursor) {
  const uint32_t magic = cursor->Read<uint32_t>("magic");
  if (magic == kMagic) return;
  const auto bytes = std::bit_cast<std::array<char, 4>>(magic);
  const std::string_view start(bytes.data(), bytes.size());
  std::string_view hint = "give the path of a .gguf file";
  for (const Impostor& impostor : kImpostors) {
    if (impostor.start == start) hint = impostor.hint;
  }
  cursor->Refuse(
      fmt::format("not a GGUF file: it starts with '{}' (0x{:08x})", Printable(start), magic),
      hint);
}

uint32_t ReadVersion(GgufCursor* cursor) {
  const uint32_t version = cursor->Read<uint32_t>("version");
  if (version >= kOldestVersion && version <= kNewestVersion) return version;
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= kNewestVersion) {
    cursor->RefuseAsUnsupported(fmt::format("big-endian GGUF version {}", swapped),
                                "convert it to little-endian");
  }
  cursor->RefuseAsUnsupported(fmt::format("GGUF version {}", version),
                              "versions 2 and 3 are read; convert the model again");
}

uint64_t ReadCount(GgufCursor* cursor, std::string_view what, uint64_t maximum) {
  const uint64_t count = cursor->Read<uint64_t>(what);
  if (count > maximum) {
    cursor->Refuse(fmt::format("{} is {}; at most {} are read", what, count, maximum));
  }
  return count;
}

std::string ReadKey(GgufCursor* cursor, uint64_t index) {
  cursor->SetContext(fmt::format("metadata key {}", index));
  std::string key = cursor->ReadString(kMaxGgufKeyBytes, "key");
  if (key.empty() || Printable(key, kMaxGgufKeyBytes) != key) {
    cursor->Refuse(fmt::format("key '{}' is empty or not printable", Printable(key)));
  }
  cursor->SetContext(fmt::format("metadata '{}'", key));
  return key;
}

}  // namespace

GgufFile GgufFile::Open(const std::filesystem::path& path) {
  return GgufFile(OpenFileSource(path));
}

GgufFile GgufFile::FromBytes(std::vector<uint8_t> bytes, std::string name) {
  return GgufFile(MemorySource(std::move(bytes), std::move(name)));
}

GgufFile::GgufFile(std::unique_ptr<ByteSource> bytes)
    : bytes_(std::move(bytes)), source_(bytes_->name()) {
  GgufCursor cursor(*bytes_);
  CheckMagic(&cursor);
  version_ = ReadVersion(&cursor);
  const uint64_t num_tensors = ReadCount(&cursor, "tensor count", kMaxGgufTensors);
  const uint64_t num_keys = ReadCount(&cursor, "metadata count", kMaxGgufKeys);
  ReadMetadata(&cursor, num_keys);
  const uint64_t alignment = Alignment();
  RefuseSplitModels();
  tensors_ = ReadGgufTensors(&cursor, num_tensors);
  // The header is at most kMaxGgufHeaderBytes and the alignment 32 bits wide: no overflow.
  PlaceGgufTensors(RoundUp(cursor.position(), alignment), alignment, bytes_->size(), source_,
                   &tensors_);
  IndexTensors();
  bytes_->CheckUnchanged();
}

void GgufFile::ReadMetadata(GgufCursor* cursor, uint64_t count) {
  cursor->RequireItems(count, kMinKeyBytes, "metadata count");
  uint64_t element_budget = kMaxGgufArrayElements;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = ReadKey(cursor, i);
    GgufValue value = ReadGgufValue(cursor, &element_budget);
    const auto [position, inserted] = metadata_.emplace(std::move(key), std::move(value));
    if (!inserted) cursor->Refuse("this key was given before");
  }
}

uint64_t GgufFile::Alignment() const {
  constexpr std::string_view kKey = "general.alignment";
  if (!Has(kKey)) return kDefaultAlignment;
  const GgufValue& value = ValueOf(kKey);
  if (value.type != GgufType::kUint32) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: metadata '{}' is {}, not uint32", source_, kKey, TypeText(value)));
  }
  const uint64_t alignment = Unsigned(kKey);
  if (!std::has_single_bit(alignment)) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: metadata '{}' is {}, no power of two", source_, kKey, alignment));
  }
  return alignment;
}

void GgufFile::RefuseSplitModels() const {
  const uint64_t parts = UnsignedOr("split.count", 1);
  if (parts <= 1) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{}: metadata 'split.count': one of {} parts of a split model", source_, parts),
      "merge the parts into one file (llama-gguf-split --merge)");
}

void GgufFile::IndexTensors() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensor_index_.emplace(tensors_[i].name, i).second) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}: tensor '{}' is described twice", source_, tensors_[i].name));
    }
  }
}

const GgufValue& GgufFile::ValueOf(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: metadata '{}' is missing", source_, key),
                "use a complete model file of a supported architecture");
  }
  return found->second;
}

template <typename T>
const T& GgufFile::Typed(std::string_view key, std::string_view wanted) const {
  const GgufValue& value = ValueOf(key);
  if (const T* data = std::get_if<T>(&value.data)) return *data;
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: metadata '{}' is {}, not {}", source_, key,
                                                    TypeText(value), wanted));
}

const std::string& GgufFile::String(std::string_view key) const {
  return Typed<std::string>(key, "a string");
}

uint64_t GgufFile::Unsigned(std::string_view key) const {
  const int64_t* number = std::get_if<int64_t>(&ValueOf(key).data);
  if (number == nullptr) return Typed<uint64_t>(key, "an integer");
  if (*number >= 0) return static_cast<uint64_t>(*number);
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("{}: metadata '{}' is {}, which is negative", source_, key, *number));
}

double GgufFile::Float(std::string_view key) const {
  const GgufValue& value = ValueOf(key);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return static_cast<double>(*number);
  return Typed<double>(key, "a number");
}

bool GgufFile::Bool(std::string_view key) const { return Typed<bool>(key, "a boolean"); }

const std::vector<std::string>& GgufFile::Strings(std::string_view key) const {
  return Typed<std::vector<std::string>>(key, "an array of strings");
}

const std::vector<int64_t>& GgufFile::Integers(std::string_view key) const {
  return Typed<std::vector<int64_t>>(key, "an array of integers");
}

const std::vector<float>& GgufFile::Floats(std::string_view key) const {
  return Typed<std::vector<float>>(key, "an array of floating-point numbers");
}

bool GgufFile::IsArray(std::string_view key) const { return ValueOf(key).type == GgufType::kArray; }

std::string GgufFile::StringOr(std::string_view key, std::string_view fallback) const {
  return Has(key) ? String(key) : std::string(fallback);
}

uint64_t GgufFile::UnsignedOr(std::string_view key, uint64_t fallback) const {
  return Has(key) ? Unsigned(key) : fallback;
}

double GgufFile::FloatOr(std::string_view key, double fallback) const {
  return Has(key) ? Float(key) : fallback;
}

bool GgufFile::BoolOr(std::string_view key, bool fallback) const {
  return Has(key) ? Bool(key) : fallback;
}

const GgufTensor* GgufFile::Find(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::Get(std::string_view name) const {
  if (const GgufTensor* tensor = Find(name)) return *tensor;
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: tensor '{}' is missing", source_, name),
              "use a complete model file of a supported architecture");
}

void GgufFile::ReadTensor(const GgufTensor& tensor, std::span<uint8_t> out) const {
  KVANT_CHECK(out.size() == tensor.bytes);
  bytes_->ReadAt(tensor.offset, out);
  bytes_->CheckUnchanged();
}

Digest GgufFile::digest() const {
  Sha256 sha256;
  std::vector<uint8_t> chunk(std::min(kDigestChunkBytes, bytes_->size()));
  for (uint64_t offset = 0; offset < bytes_->size(); offset += chunk.size()) {
    const uint64_t left = bytes_->size() - offset;
    const auto part = std::span(chunk).first(std::min<uint64_t>(chunk.size(), left));
    bytes_->ReadAt(offset, part);
    sha256.Update(part);
  }
  bytes_->CheckUnchanged();
  return sha256.Finish();
}

}  // namespace kvant
