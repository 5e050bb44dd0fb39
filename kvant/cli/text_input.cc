#include "kvant/cli/text_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/json.h"

namespace kvant {

namespace {

constexpr uint64_t kMaxTextBytes = 64ULL << 20;

std::string TextOfLine(std::string_view line, const std::string& where) {
  const Json document = ParseJson(line, where);
  if (document.contains("text") && document["text"].is_string()) {
    return document["text"].get<std::string>();
  }
  if (!document.contains("messages") || !document["messages"].is_array()) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: neither 'text' nor 'messages'", where));
  }
  std::string text;
  for (const Json& message : document["messages"]) {
    const bool whole =
        message.is_object() && message.contains("content") && message["content"].is_string();
    if (!whole) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: a message without content", where));
    }
    text += message["content"].get<std::string>() + "\n\n";
  }
  return text;
}

void ReadJsonLines(const std::filesystem::path& path, const std::string& content,
                   std::vector<std::string>* texts) {
  size_t start = 0;
  for (size_t number = 1; start < content.size(); ++number) {
    const size_t end = std::min(content.find('\n', start), content.size());
    const std::string_view line = std::string_view(content).substr(start, end - start);
    if (!line.empty()) {
      texts->push_back(TextOfLine(line, fmt::format("{} line {}", path.string(), number)));
    }
    start = end + 1;
  }
}

void ReadOne(const std::filesystem::path& path, std::vector<std::string>* texts) {
  const std::string content = ReadWholeFile(path, kMaxTextBytes);
  if (path.extension() == ".jsonl") {
    ReadJsonLines(path, content, texts);
  } else if (!content.empty()) {
    texts->push_back(content);
  }
}

}  // namespace

std::vector<std::string> ReadTexts(const std::vector<std::string>& paths) {
  static const std::set<std::string> kExtensions = {".txt", ".md", ".rst", ".jsonl"};
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      ReadOne(path, &texts);
      continue;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && kExtensions.contains(entry.path().extension().string())) {
        files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) ReadOne(file, &texts);
  }
  if (texts.empty()) {
    throw Error(ErrorCode::kInvalidInput, "the text is empty",
                "give files or folders of .txt, .md, .rst or .jsonl");
  }
  return texts;
}

}  // namespace kvant
