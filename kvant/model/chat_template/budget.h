// What one template may cost. A template is untrusted (it comes inside a model file), so every
// loop, string, list and level of nesting is paid for from one of these limits.
#pragma once

#include <cstddef>
#include <string>

namespace kvant {

struct ChatTemplateLimits {
  size_t source_bytes = size_t{1} << 20;
  // Levels of brackets, blocks and operators in the source, and levels of lists in a value.
  size_t syntax_depth = 150;
  size_t value_depth = 100;
  // Levels of evaluation that are open at once, macro calls included.
  size_t evaluation_depth = 1000;
  // A step is one node evaluated, one list item made or compared, or 16 bytes of text made; ten
  // million are about one second.
  size_t steps = 10'000'000;
  size_t output_bytes = size_t{16} << 20;
  size_t text_bytes = size_t{16} << 20;
  size_t list_items = 1'000'000;
  size_t range_items = 100'000;
};

namespace jinja {

// Throws Error{kInvalidInput}; the interpreter adds the line.
[[noreturn]] void Fail(std::string message);

// Counts what a rendering has used. Every method throws Error{kInvalidInput} that names the limit
// when it is passed.
class Budget {
 public:
  explicit Budget(const ChatTemplateLimits& limits) : limits_(limits) {}

  const ChatTemplateLimits& limits() const { return limits_; }

  void Step(size_t count = 1) {
    if (count > limits_.steps - steps_) FailSteps();
    steps_ += count;
  }
  // Before a text or list of this size is made.
  void Text(size_t bytes);
  void List(size_t items);

 private:
  [[noreturn]] void FailSteps() const;

  const ChatTemplateLimits& limits_;
  size_t steps_ = 0;
};

}  // namespace jinja
}  // namespace kvant
