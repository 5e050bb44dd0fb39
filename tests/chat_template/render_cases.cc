// Renders chat templates for the scripts that compare them with jinja2: reads one JSON object a
// line, {template, messages, tools, add_generation_prompt, extra, now}, and answers each with
// {"text": …} or {"error": …}. `now` is in seconds since 1970, UTC.
#include <chrono>
#include <exception>
#include <iostream>
#include <string>

#include "kvant/model/chat_template/chat_template.h"

namespace {

kvant::OrderedJson Answer(const std::string& line) {
  kvant::OrderedJson answer;
  try {
    const auto request = kvant::OrderedJson::parse(line);
    const kvant::ChatTemplate chat_template(request.at("template").get<std::string>());
    const auto& tools = request.at("tools");
    const std::chrono::system_clock::time_point now(
        std::chrono::seconds(request.at("now").get<int64_t>()));
    answer["text"] = chat_template.Render(
        request.at("messages"), tools.is_null() ? nullptr : &tools,
        request.at("add_generation_prompt").get<bool>(), request.at("extra"), now);
  } catch (const std::exception& error) {
    answer["error"] = error.what();
  }
  return answer;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(line).dump() << "\n" << std::flush;
  }
}
