#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "kvant/cli/command.h"
#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/kernel/isa.h"

namespace {

// For errors that know no better one.
const char* HintFor(kvant::ErrorCode code) {
  switch (code) {
    case kvant::ErrorCode::kUsage:
      return "see kvant --help, and kvant COMMAND --help";
    case kvant::ErrorCode::kNotFound:
      return "check the path";
    case kvant::ErrorCode::kInvalidInput:
      return "the input is damaged or not what it should be; make or fetch it again";
    case kvant::ErrorCode::kIo:
      return "check the path, its permissions and the free space";
    case kvant::ErrorCode::kOverBudget:
      return "raise --memory, or ask for less";
    case kvant::ErrorCode::kUnsupported:
      return "docs/formats.md and README.md say what is supported";
    default:
      return "this is a defect of kvant: please report it with the command";
  }
}

int ReportFailure(const kvant::Error& error, bool json) {
  const std::string hint = error.hint().empty() && error.code() != kvant::ErrorCode::kCancelled
                               ? HintFor(error.code())
                               : error.hint();
  if (json) {
    const kvant::Json document = {{"error",
                                   {{"code", kvant::ErrorCodeName(error.code())},
                                    {"message", error.message()},
                                    {"hint", hint}}}};
    std::printf("%s\n",
                document.dump(-1, ' ', false, kvant::Json::error_handler_t::replace).c_str());
  }
  std::fprintf(stderr, "kvant: %s%s%s\n", error.message().c_str(), hint.empty() ? "" : "\n       ",
               hint.c_str());
  return kvant::ExitCodeFor(error.code());
}

bool WantsJson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--json") return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Kvant: KV-cache quantization, decided by measurement.\n\n"
      "Examples:\n"
      "  kvant experiment -m model.gguf --text docs/ --out out   ship, canary, or don't\n"
      "  kvant generate -m model.gguf --format int8 \"Hello\"      try a prompt\n"
      "  kvant inspect -m model.gguf                             bytes per token by format\n"
      "  kvant probe                                             what this machine's kernels do\n"};
  app.name(argc > 0 ? argv[0] : "kvant");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("kvant ") + KVANT_VERSION);
  app.footer(
      "Exit codes: 0 done or ship, 1 do not ship, 2 usage, 3 input or environment, "
      "4 internal, 5 canary, 6 inconclusive.");
  const bool json = WantsJson(argc, argv);
  kvant::CommandBody body;
  kvant::AddExperimentCommand(&app, &body);
  kvant::AddCalibrateCommand(&app, &body);
  kvant::AddGenerateCommand(&app, &body);
  kvant::AddInspectCommand(&app, &body);
  kvant::AddReportCommand(&app, &body);
  kvant::AddProbeCommand(&app, &body);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return ReportFailure(kvant::Error(kvant::ErrorCode::kUsage, error.what()), json);
  }
  try {
    kvant::ApplyIsaFromEnvironment();
    return body();
  } catch (const kvant::Error& error) {
    return ReportFailure(error, json);
  } catch (const std::filesystem::filesystem_error& error) {
    return ReportFailure(kvant::Error(kvant::ErrorCode::kIo, error.what()), json);
  } catch (const std::bad_alloc&) {
    return ReportFailure(kvant::Error(kvant::ErrorCode::kOverBudget, "out of memory",
                                      "lower --memory or the context"),
                         json);
  } catch (const std::exception& error) {
    return ReportFailure(kvant::Error(kvant::ErrorCode::kInternal, error.what()), json);
  }
}
