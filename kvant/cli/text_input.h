// The user's own text: plain files, folders of them, and chat logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvant {

// Reads every path: a plain-text file, a .jsonl of chats ({"messages": [{"role", "content"}]} or
// {"text": …} per line), or a folder, of which all .txt, .md, .rst and .jsonl files are taken in
// the order of their names. One string per file or chat. Throws Error{kNotFound} for a missing
// path, {kInvalidInput} for a malformed line (with its number), a file over 64 MiB or no text.
std::vector<std::string> ReadTexts(const std::vector<std::string>& paths);

}  // namespace kvant
