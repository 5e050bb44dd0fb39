// Whatever the bytes are, a GGUF is read or refused with an Error; what was read can be used.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/model/gguf/gguf_file.h"

namespace kvant {
namespace {

void IgnoreErrors(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const Error&) {
  }
}

// Every getter on every key: each returns or throws Error.
void ReadMetadata(const GgufFile& file) {
  for (const auto& entry : file.metadata()) {
    const std::string& key = entry.first;
    KVANT_CHECK(file.Has(key));
    KVANT_CHECK(!TypeText(entry.second).empty());
    IgnoreErrors([&] { file.String(key); });
    IgnoreErrors([&] { file.Unsigned(key); });
    IgnoreErrors([&] { file.Float(key); });
    IgnoreErrors([&] { file.Bool(key); });
    IgnoreErrors([&] { file.Strings(key); });
    IgnoreErrors([&] { file.Integers(key); });
    IgnoreErrors([&] { file.Floats(key); });
  }
}

// What parsing promises of tensors, checked independently of how it checks it.
void ReadTensors(const GgufFile& file, uint64_t file_bytes) {
  std::set<std::pair<uint64_t, uint64_t>> ranges;
  for (const GgufTensor& tensor : file.tensors()) {
    KVANT_CHECK(file.Find(tensor.name) == &tensor);
    KVANT_CHECK(tensor.bytes > 0 && tensor.bytes <= file_bytes);
    KVANT_CHECK(tensor.num_elements() / WeightBlockElements(tensor.type) *
                    WeightBlockBytes(tensor.type) ==
                tensor.bytes);
    std::vector<uint8_t> data(tensor.bytes);
    file.ReadTensor(tensor, data);
    ranges.emplace(tensor.offset, tensor.offset + tensor.bytes);
  }
  KVANT_CHECK(ranges.size() == file.tensors().size());
  uint64_t end = 0;
  for (const auto& range : ranges) {
    KVANT_CHECK(range.first >= end);
    end = range.second;
  }
  KVANT_CHECK(end <= file_bytes);
}

}  // namespace
}  // namespace kvant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvant::IgnoreErrors([&] {
    const kvant::GgufFile file =
        kvant::GgufFile::FromBytes(std::vector<uint8_t>(data, data + size), "input");
    kvant::ReadMetadata(file);
    kvant::ReadTensors(file, size);
  });
  return 0;
}
