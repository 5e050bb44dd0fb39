// kvant report: the page and the JSON of a stored run.
#include <cstdio>
#include <memory>

#include "kvant/cli/command.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/report/report_html.h"
#include "kvant/report/report_json.h"

namespace kvant {

namespace {

struct ReportFlags {
  std::string folder;
  std::string rules;
  int64_t run = 0;
  bool json = false;
};

int MakeReport(const ReportFlags& flags) {
  const std::filesystem::path folder = flags.folder;
  const Store store = Store::OpenForReading(folder / "results.db");
  const std::vector<StoredRun> runs = store.Runs();
  if (runs.empty()) {
    throw Error(ErrorCode::kNotFound, flags.folder + " holds no run", "run kvant experiment first");
  }
  const int64_t run = flags.run > 0 ? flags.run : runs.back().id;
  const VerdictRules rules =
      flags.rules.empty()
          ? VerdictRules()
          : RulesFromJson(ParseJson(ReadWholeFile(flags.rules, 1 << 20), flags.rules), flags.rules);
  const Json report = BuildReport(store, run, rules);
  WriteFileAtomically(folder / "report.json", report.dump(1) + "\n");
  WriteFileAtomically(folder / "report.html", RenderReportHtml(report));
  if (flags.json) {
    std::printf("%s\n", report.dump(1).c_str());
  } else {
    std::printf("%s\n%s\n", (folder / "report.html").c_str(), (folder / "report.json").c_str());
  }
  return 0;
}

}  // namespace

void AddReportCommand(CLI::App* app, CommandBody* body) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app->add_subcommand(
      "report", "Write report.html and report.json of a stored run again, perhaps by other rules");
  command->add_option("folder", flags->folder, "the experiment's --out folder")->required();
  command->add_option("--run", flags->run, "number of the run (default: the last)");
  command->add_option("--rules", flags->rules, "verdict rules (JSON)");
  command->add_flag("--json", flags->json, "the report's JSON on stdout");
  command->callback([flags, body] { *body = [flags] { return MakeReport(*flags); }; });
}

}  // namespace kvant
