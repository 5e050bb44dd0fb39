// Reads JSON strings, one a line, and writes the ids of each as a JSON array: the C++ side of
// compare_text.py. Usage: tokenize_lines MODEL.gguf
#include <iostream>
#include <string>

#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/model/gguf/gguf_file.h"
#include "kvant/model/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_lines MODEL.gguf < LINES.jsonl\n";
    return 2;
  }
  try {
    const auto tokenizer =
        kvant::MakeTokenizer(kvant::ReadTokenizerData(kvant::GgufFile::Open(argv[1])));
    for (std::string line; std::getline(std::cin, line);) {
      const auto text = kvant::ParseJson(line, "standard input").get<std::string>();
      std::cout << kvant::Json(tokenizer->Encode(text)).dump() << '\n';
    }
  } catch (const kvant::Error& error) {
    std::cerr << error.message() << '\n';
    return kvant::ExitCodeFor(error.code());
  }
}
