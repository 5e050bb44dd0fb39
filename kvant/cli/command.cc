#include "kvant/cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "kvant/core/bytes.h"

namespace kvant {

namespace {
double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}  // namespace

void AddEngineFlags(CLI::App* command, EngineFlags* flags) {
  command->add_option("-m,--model", flags->model, "GGUF checkpoint")->required();
  command->add_option("--memory", flags->memory,
                      "hard budget of the whole process, as in 4GiB (default 4GiB)");
  command->add_option("-t,--threads", flags->threads, "threads (default: all CPUs)");
  command->add_option("--context", flags->context,
                      "longest sequence, as in 8K (default: the model's trained context)");
}

size_t NumThreads(const EngineFlags& flags) {
  if (flags.threads > 0) return std::min<size_t>(flags.threads, 1024);
  return std::max(1U, std::thread::hardware_concurrency());
}

EngineOptions MakeEngineOptions(const EngineFlags& flags) {
  EngineOptions options;
  options.memory_bytes = ParseBytes(flags.memory);
  options.num_threads = NumThreads(flags);
  if (!flags.context.empty()) options.max_context = ParseTokens(flags.context);
  return options;
}

std::string PlanText(const std::string& given) {
  for (const std::string_view name : {"8-bit", "8bit"}) {
    if (!given.starts_with(name)) continue;
    std::fprintf(
        stderr,
        "kvant: 8-bit means int8 here: its mean squared error is a sixteenth of FP8's at as "
        "many bits, and CPUs have no FP8 arithmetic\n");
    return "int8" + given.substr(name.size());
  }
  return given;
}

bool StderrIsTerminal() { return ::isatty(STDERR_FILENO) == 1; }

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)), started_s_(Now()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Update(uint64_t done, uint64_t total) {
  constexpr double kRedrawSeconds = 0.2;
  const double now = Now();
  if (!StderrIsTerminal() || total == 0 || now - drawn_s_ < kRedrawSeconds) return;
  drawn_s_ = now;
  drawn_ = true;
  const double fraction = static_cast<double>(done) / static_cast<double>(total);
  std::string left = "…";
  if (fraction > 0.01) left = fmt::format("{:.0f} s", (now - started_s_) * (1 / fraction - 1));
  std::fputs(fmt::format("\r\033[K{} {:.0f} %, {} left", what_, 100 * fraction, left).c_str(),
             stderr);
}

}  // namespace kvant
