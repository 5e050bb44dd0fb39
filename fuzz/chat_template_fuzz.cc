// A chat template from an untrusted model file, over a fixed conversation: any source ends with a
// text or an Error, within the limits.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/chat_template.h"

namespace {

kvant::ChatTemplateLimits SmallLimits() {
  kvant::ChatTemplateLimits limits;
  limits.source_bytes = size_t{1} << 16;
  limits.steps = 50'000;
  limits.output_bytes = size_t{1} << 16;
  limits.text_bytes = size_t{1} << 16;
  limits.list_items = 10'000;
  limits.range_items = 1'000;
  return limits;
}

const kvant::OrderedJson& Conversation() {
  static const auto conversation = kvant::OrderedJson::parse(R"([
    {"role": "system", "content": " Be kind. "},
    {"role": "user", "content": "naïve 😀 {{ x }}"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "abcdefghi", "type": "function",
       "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null]}}}]},
    {"role": "tool", "content": "42", "tool_call_id": "abcdefghi"}])");
  return conversation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tools = kvant::OrderedJson::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])");
  static const auto extra = kvant::OrderedJson::parse(
      R"({"bos_token": "<s>", "text": "Hello, wörld! ", "number": 7, "letters": ["b", "A"]})");
  try {
    const kvant::ChatTemplate chat_template(std::string(reinterpret_cast<const char*>(data), size),
                                            SmallLimits());
    chat_template.Render(Conversation(), &tools, true, extra);
  } catch (const kvant::Error&) {
  }
  return 0;
}
