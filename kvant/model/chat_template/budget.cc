#include "kvant/model/chat_template/budget.h"

#include <fmt/format.h>

#include <utility>

#include "kvant/core/error.h"

namespace kvant::jinja {

void Fail(std::string message) { throw Error(ErrorCode::kInvalidInput, std::move(message)); }

void Budget::FailSteps() const { Fail(fmt::format("takes more than {} steps", limits_.steps)); }

void Budget::Text(size_t bytes) {
  if (bytes > limits_.text_bytes) {
    Fail(fmt::format("makes a text of more than {} bytes", limits_.text_bytes));
  }
  Step(1 + bytes / 16);
}

void Budget::List(size_t items) {
  if (items > limits_.list_items) {
    Fail(fmt::format("makes a list of more than {} items", limits_.list_items));
  }
  Step(1 + items);
}

}  // namespace kvant::jinja
