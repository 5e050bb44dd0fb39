// Whatever the bytes are, a scale file is refused with an Error or gives scales that are all there
// and usable. Both readers see the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvant/calibrate/scale_file.h"
#include "kvant/core/error.h"

namespace {

// Not within the try block: an Error here ends the run.
template <typename Parse>
void ParseAndCheck(const Parse& parse) {
  kvant::ScaleSet scales;
  try {
    scales = parse();
  } catch (const kvant::Error&) {
    return;
  }
  kvant::ValidateScaleSet(scales, "accepted scales");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  kvant::KvGeometry geometry;
  geometry.num_layers = 2;
  geometry.num_kv_heads = 3;
  geometry.head_dim = 16;
  ParseAndCheck([&] { return kvant::ParseScaleJson(bytes, "input").scales; });
  ParseAndCheck([&] { return kvant::ParseCompressedTensorsScales(bytes, "input", geometry); });
  return 0;
}
