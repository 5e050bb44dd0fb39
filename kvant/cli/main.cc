#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "kvant/cli/command.h"
#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/kernel/isa.h"

namespace {

int ReportFailure(const kvant::Error& error, bool json) {
  if (json) {
    const kvant::Json document = {{"error",
                                   {{"code", kvant::ErrorCodeName(error.code())},
                                    {"message", error.message()},
                                    {"hint", error.hint()}}}};
    std::printf("%s\n",
                document.dump(-1, ' ', false, kvant::Json::error_handler_t::replace).c_str());
  }
  std::fprintf(stderr, "kvant: %s%s%s\n", error.message().c_str(),
               error.hint().empty() ? "" : "\n       ", error.hint().c_str());
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
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("kvant ") + KVANT_VERSION);
  app.footer(
      "Exit codes: 0 done or ship, 1 do not ship, 2 usage, 3 input or environment, "
      "4 internal, 5 canary, 6 inconclusive.");
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
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  const bool json = WantsJson(argc, argv);
  try {
    kvant::ApplyIsaFromEnvironment();
    return body();
  } catch (const kvant::Error& error) {
    return ReportFailure(error, json);
  } catch (const std::bad_alloc&) {
    return ReportFailure(kvant::Error(kvant::ErrorCode::kOverBudget, "out of memory",
                                      "lower --memory or the context"),
                         json);
  } catch (const std::exception& error) {
    return ReportFailure(kvant::Error(kvant::ErrorCode::kInternal, error.what()), json);
  }
}
