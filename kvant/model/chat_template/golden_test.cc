// Equality with jinja2, whose renderings stand in tests/chat_template/golden.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/model/chat_template/chat_template.h"

namespace kvant {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(KVANT_SOURCE_DIR) / "tests" / "chat_template";

const OrderedJson& Golden() {
  static const OrderedJson golden =
      OrderedJson::parse(ReadWholeFile(kFolder / "golden.json", 16U << 20));
  return golden;
}

// The text as JSON; null where the template refuses.
OrderedJson Rendered(const ChatTemplate& chat_template, const OrderedJson& messages,
                     const OrderedJson& tools, bool prompt, const OrderedJson& extra) {
  const std::chrono::system_clock::time_point now(
      std::chrono::seconds(Golden().at("now").get<int64_t>()));
  try {
    return chat_template.Render(messages, tools.is_null() ? nullptr : &tools, prompt, extra, now);
  } catch (const Error&) {
    return nullptr;
  }
}

void ExpectEveryCase(const std::string& source, const OrderedJson& cases) {
  const ChatTemplate chat_template(source);
  const OrderedJson& golden = Golden();
  ASSERT_GT(cases.size(), 50U);
  for (const auto& one : cases) {
    const auto conversation = one.at("conversation").get<std::string>();
    const auto tools = one.at("tools").get<std::string>();
    EXPECT_EQ(Rendered(chat_template, golden.at("conversations").at(conversation),
                       golden.at("tools").at(tools), one.at("add_generation_prompt").get<bool>(),
                       golden.at("extras").at(one.at("extra").get<std::string>())),
              one.at("text"))
        << conversation << ", " << tools;
  }
}

// The chat template inside a GGUF file: its key, the type 8 (string), the length, the text.
std::string ModelTemplate(const std::filesystem::path& path) {
  const ReadOnlyFile file(path);
  std::vector<uint8_t> bytes(std::min<uint64_t>(file.size(), 64U << 20));
  file.ReadAt(0, bytes);
  const std::string key = "tokenizer.chat_template";
  auto at = std::search(bytes.begin(), bytes.end(), key.begin(), key.end());
  const auto left = static_cast<size_t>(bytes.end() - at);
  const size_t header = key.size() + sizeof(uint32_t) + sizeof(uint64_t);
  if (left < header) return "";
  uint64_t length = 0;
  std::memcpy(&length, &*at + key.size() + sizeof(uint32_t), sizeof length);
  if (length > left - header) return "";
  at += static_cast<std::ptrdiff_t>(header);
  return std::string(at, at + static_cast<std::ptrdiff_t>(length));
}

std::filesystem::path ModelPath(const std::string& name) {
  const char* folder = std::getenv("KVANT_MODELS");
  const auto models = folder == nullptr ? std::filesystem::path(KVANT_SOURCE_DIR) / "models"
                                        : std::filesystem::path(folder);
  return models / (name + ".gguf");
}

TEST(ChatTemplateGolden, SnippetsOfTheLanguageRenderAsInJinja2) {
  const OrderedJson& golden = Golden();
  ASSERT_GT(golden.at("snippets").size(), 500U);
  for (const auto& snippet : golden.at("snippets")) {
    const auto source = snippet.at("template").get<std::string>();
    OrderedJson text;
    try {
      text = Rendered(ChatTemplate(source), OrderedJson::array(), nullptr, false,
                      golden.at("context"));
    } catch (const Error&) {
      text = nullptr;
    }
    EXPECT_EQ(text, snippet.at("text")) << source;
  }
}

TEST(ChatTemplateGolden, WireFormatsRenderAsInJinja2) {
  ASSERT_EQ(Golden().at("templates").size(), 7U);
  for (const auto& [name, cases] : Golden().at("templates").items()) {
    SCOPED_TRACE(name);
    ExpectEveryCase(ReadWholeFile(kFolder / "templates" / name, 1U << 20), cases);
  }
}

TEST(ChatTemplateGolden, TheTemplateOfSmollm2RendersAsInJinja2) {
  ExpectEveryCase(ModelTemplate(ModelPath("smollm2-135m")),
                  Golden().at("models").at("smollm2-135m"));
}

TEST(ChatTemplateGolden, TheTemplateOfQwenCoderRendersAsInJinja2) {
  const auto path = ModelPath("qwen2.5-coder-0.5b");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is not there; scripts/fetch-model qwen2.5-coder-0.5b fetches it";
  }
  ExpectEveryCase(ModelTemplate(path), Golden().at("models").at("qwen2.5-coder-0.5b"));
}

}  // namespace
}  // namespace kvant
