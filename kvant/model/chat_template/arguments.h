// Reads the arguments of one call in the order of the function's parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvant/model/chat_template/value.h"

namespace kvant::jinja {

// Every reader takes the next positional argument or, if there is none, the one of that name.
// Failures name the function.
class ArgumentReader {
 public:
  ArgumentReader(std::string_view function, const Arguments& arguments)
      : function_(function), arguments_(arguments) {}

  // Null if it is not given.
  const Value* Next(std::string_view name);
  const Value& Required(std::string_view name);
  const std::string& RequiredText(std::string_view name);
  // None counts as not given.
  const std::string* OptionalText(std::string_view name);
  int64_t Integer(std::string_view name, int64_t fallback);
  bool Truth(std::string_view name, bool fallback);
  // Fails if an argument was not read.
  void Finish() const;

 private:
  std::string_view function_;
  const Arguments& arguments_;
  size_t position_ = 0;
  size_t named_ = 0;
};

}  // namespace kvant::jinja
