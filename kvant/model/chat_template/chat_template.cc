#include "kvant/model/chat_template/chat_template.h"

#include <ctime>
#include <utility>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/interpreter.h"
#include "kvant/model/chat_template/parser.h"

namespace kvant {

struct ChatTemplate::Parsed {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::string source, const ChatTemplateLimits& limits)
    : source_(std::move(source)),
      limits_(limits),
      parsed_(std::make_shared<const Parsed>(Parsed{jinja::Parse(source_, limits_)})) {}

std::string ChatTemplate::Render(const OrderedJson& messages, const OrderedJson* tools,
                                 bool add_generation_prompt, const OrderedJson& extra,
                                 std::optional<std::chrono::system_clock::time_point> now) const {
  if (!messages.is_array()) {
    throw Error(ErrorCode::kInvalidInput, "the messages of a conversation are not an array");
  }
  std::vector<std::pair<std::string, OrderedJson>> context;
  context.emplace_back("documents", nullptr);
  if (extra.is_object()) {
    for (const auto& [name, value] : extra.items()) context.emplace_back(name, value);
  }
  context.emplace_back("messages", messages);
  context.emplace_back("tools", tools == nullptr ? OrderedJson() : *tools);
  context.emplace_back("add_generation_prompt", add_generation_prompt);
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(now.value_or(std::chrono::system_clock::now()));
  std::tm civil{};
  if (now.has_value()) {
    gmtime_r(&seconds, &civil);
  } else {
    localtime_r(&seconds, &civil);
  }
  return jinja::Interpret(parsed_->body, context, civil, limits_);
}

}  // namespace kvant
