#include "kvant/core/error.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace kvant {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kInvalidInput:
      return "invalid_input";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kOverBudget:
      return "over_budget";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

int ExitCodeFor(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound:
    case ErrorCode::kOverBudget:
    case ErrorCode::kIo:
    case ErrorCode::kCancelled:
      return 3;
    case ErrorCode::kInternal:
      return 4;
  }
  return 4;
}

namespace {
std::string Joined(const std::string& message, const std::string& hint) {
  return hint.empty() ? message : message + " (" + hint + ")";
}
}  // namespace

Error::Error(ErrorCode code, std::string message, std::string hint)
    : std::runtime_error(Joined(message, hint)),
      code_(code),
      message_(std::move(message)),
      hint_(std::move(hint)) {}

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "kvant: internal invariant broken: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace kvant
