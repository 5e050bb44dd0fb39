#include "kvant/model/gguf/gguf_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>

#include "kvant/core/error.h"
#include "kvant/model/gguf/gguf_limits.h"

namespace kvant {

namespace {

// Length of the name, one byte of it, number of dimensions, one extent, type and offset.
constexpr uint64_t kMinDescriptionBytes = 8 + 1 + 4 + 8 + 4 + 8;

std::vector<uint64_t> ReadShape(GgufCursor* cursor) {
  const uint32_t dimensions = cursor->Read<uint32_t>("number of dimensions");
  if (dimensions == 0 || dimensions > kMaxGgufDimensions) {
    cursor->Refuse(fmt::format("{} dimensions; 1 to {} are read", dimensions, kMaxGgufDimensions));
  }
  std::vector<uint64_t> shape(dimensions);
  for (uint64_t& extent : shape) extent = cursor->Read<uint64_t>("shape");
  return shape;
}

WeightType ReadWeightType(GgufCursor* cursor) {
  const uint32_t number = cursor->Read<uint32_t>("weight type");
  const std::optional<WeightType> type = WeightTypeFromGgml(number);
  if (!type) {
    cursor->RefuseAsUnsupported(fmt::format("weight type {} is not supported", number),
                                fmt::format("supported: {}", SupportedWeightTypes()));
  }
  return *type;
}

// Bytes of a tensor whose rows are whole blocks.
uint64_t PackedBytes(const GgufCursor& cursor, const GgufTensor& tensor) {
  const uint64_t block = WeightBlockElements(tensor.type);
  if (tensor.shape.front() % block != 0) {
    cursor.Refuse(fmt::format("rows of {} elements are no multiple of {}'s block of {}",
                              tensor.shape.front(), WeightTypeName(tensor.type), block));
  }
  uint64_t elements = 1;
  uint64_t bytes = 0;
  bool overflow = false;
  for (const uint64_t extent : tensor.shape) {
    overflow = overflow || __builtin_mul_overflow(elements, extent, &elements);
  }
  overflow =
      overflow || __builtin_mul_overflow(elements / block, WeightBlockBytes(tensor.type), &bytes);
  if (overflow) {
    cursor.Refuse(fmt::format("shape [{}] overflows 64 bits", fmt::join(tensor.shape, ", ")));
  }
  if (bytes == 0) {
    cursor.Refuse(fmt::format("shape [{}] has no elements", fmt::join(tensor.shape, ", ")));
  }
  return bytes;
}

GgufTensor ReadTensorDescription(GgufCursor* cursor, uint64_t index) {
  cursor->SetContext(fmt::format("tensor {}", index));
  GgufTensor tensor;
  tensor.name = cursor->ReadString(kMaxGgufTensorNameBytes, "name");
  if (tensor.name.empty() || Printable(tensor.name) != tensor.name) {
    cursor->Refuse(fmt::format("name '{}' is empty or not printable", Printable(tensor.name)));
  }
  cursor->SetContext(fmt::format("tensor '{}'", tensor.name));
  tensor.shape = ReadShape(cursor);
  tensor.type = ReadWeightType(cursor);
  tensor.offset = cursor->Read<uint64_t>("offset");
  tensor.bytes = PackedBytes(*cursor, tensor);
  return tensor;
}

void PlaceTensor(uint64_t data_start, uint64_t alignment, uint64_t file_bytes,
                 const std::string& source, GgufTensor* tensor) {
  const auto refuse = [&](const std::string& message, const char* hint) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: tensor '{}': {}", source, tensor->name, message), hint);
  };
  if (tensor->offset % alignment != 0) {
    refuse(fmt::format("offset {} is no multiple of the alignment {}", tensor->offset, alignment),
           "");
  }
  uint64_t start = 0;
  uint64_t end = 0;
  if (__builtin_add_overflow(data_start, tensor->offset, &start) ||
      __builtin_add_overflow(start, tensor->bytes, &end) || end > file_bytes) {
    refuse(fmt::format("its {} bytes at offset {} of the data section at byte {} lie outside the "
                       "file of {} bytes",
                       tensor->bytes, tensor->offset, data_start, file_bytes),
           "the file is truncated or damaged; fetch it again");
  }
  tensor->offset = start;
}

void RefuseOverlaps(const std::string& source, const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> order;
  order.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = *order[i - 1];
    if (before.bytes > order[i]->offset - before.offset) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}: tensors '{}' and '{}' overlap at byte {}", source, before.name,
                              order[i]->name, order[i]->offset));
    }
  }
}

}  // namespace

uint64_t GgufTensor::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

std::vector<GgufTensor> ReadGgufTensors(GgufCursor* cursor, uint64_t count) {
  cursor->SetContext("tensor descriptions");
  cursor->RequireItems(count, kMinDescriptionBytes, "tensor count");
  std::vector<GgufTensor> tensors;
  tensors.reserve(count);
  for (uint64_t i = 0; i < count; ++i) tensors.push_back(ReadTensorDescription(cursor, i));
  return tensors;
}

void PlaceGgufTensors(uint64_t data_start, uint64_t alignment, uint64_t file_bytes,
                      const std::string& source, std::vector<GgufTensor>* tensors) {
  for (GgufTensor& tensor : *tensors) {
    PlaceTensor(data_start, alignment, file_bytes, source, &tensor);
  }
  RefuseOverlaps(source, *tensors);
}

}  // namespace kvant
