// Turns a conversation into the text that a chat model was trained on, by running the model
// file's own Jinja template.
//
// The template is as untrusted as the file: it sees only what Render is given, and every loop,
// text and level of nesting is bounded by ChatTemplateLimits. The dialect is the one that Hugging
// Face's apply_chat_template sets up (trim_blocks, lstrip_blocks, loop controls, its tojson,
// raise_exception and strftime_now).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "kvant/model/chat_template/budget.h"
#include "kvant/model/chat_template/json_text.h"

namespace kvant {

class ChatTemplate {
 public:
  // Throws Error{kInvalidInput} that names the line of a mistake in the template, and
  // Error{kUnsupported} for tags that would read other templates.
  explicit ChatTemplate(std::string source, const ChatTemplateLimits& limits = {});

  // messages: the array of {"role", "content", …} as the API takes it. tools: the array of tool
  // schemas, or null. extra: an object of further names (bos_token, eos_token, enable_thinking,
  // date_string, …); it cannot replace the names above. now: the time for strftime_now, in UTC;
  // the local time of the machine if it is not given. Objects keep the order of their keys.
  //
  // Throws Error{kInvalidInput} that names the line when the template refuses the conversation
  // (raise_exception), uses what is not there, or passes a limit. Threads may share a template.
  std::string Render(const OrderedJson& messages, const OrderedJson* tools,
                     bool add_generation_prompt, const OrderedJson& extra = OrderedJson::object(),
                     std::optional<std::chrono::system_clock::time_point> now = std::nullopt) const;

  const std::string& source() const { return source_; }

 private:
  struct Parsed;

  std::string source_;
  ChatTemplateLimits limits_;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace kvant
