// How Kvant reports that an operation could not do what it says.
//
// An operation that fails throws kvant::Error. Outcomes that a caller expects (queue full, no
// prefix hit, a verdict "no") are return values, never exceptions.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kvant {

enum class ErrorCode {
  kUsage,         // the command line or request names something that cannot be
  kInvalidInput,  // a file, request or text breaks a rule of its format
  kUnsupported,   // well-formed, but not something Kvant can do
  kNotFound,
  kOverBudget,  // does not fit the memory budget; the message holds the arithmetic
  kIo,
  kCancelled,
  kInternal,
};

// Stable, lower-case name of a code, for JSON and logs ("invalid_input").
std::string_view ErrorCodeName(ErrorCode code);

// The process exit code of a command that ended with this error: 2 usage, 3 input or environment,
// 4 internal (docs/exit-codes.md).
int ExitCodeFor(ErrorCode code);

// message: what is wrong and where, one line. hint: how to mend it, one line, may be empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::string hint = "");

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string hint_;
};

// Prints the broken invariant and aborts. Never used on input.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace kvant

// Guards an invariant of our own code, in release builds too. Input is checked with Error.
#define KVANT_CHECK(condition)                              \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::kvant::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
