// What the commands share: their registration, and the options that load an engine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvant/engine/engine.h"

namespace kvant {

// Set by the command that the user named; returns the exit code.
using CommandBody = std::function<int()>;

void AddGenerateCommand(CLI::App* app, CommandBody* body);
void AddInspectCommand(CLI::App* app, CommandBody* body);
void AddProbeCommand(CLI::App* app, CommandBody* body);
void AddCalibrateCommand(CLI::App* app, CommandBody* body);
void AddExperimentCommand(CLI::App* app, CommandBody* body);
void AddReportCommand(CLI::App* app, CommandBody* body);

// --model, --memory, --threads, --context.
struct EngineFlags {
  std::string model;
  std::string memory = "4GiB";
  size_t threads = 0;   // 0: all CPUs
  std::string context;  // empty: the model's own
};
void AddEngineFlags(CLI::App* command, EngineFlags* flags);
EngineOptions MakeEngineOptions(const EngineFlags& flags);
size_t NumThreads(const EngineFlags& flags);

// A plan as the user names it: "8-bit" is int8, and says on stderr why.
std::string PlanText(const std::string& given);

// stderr is a terminal: progress may be drawn there.
bool StderrIsTerminal();

// "what 37 % (1,234 of 3,300), 12 s left", redrawn in place on a terminal, nothing when piped.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(uint64_t done, uint64_t total);

 private:
  std::string what_;
  double started_s_;
  double drawn_s_ = 0;
  bool drawn_ = false;
};

}  // namespace kvant
