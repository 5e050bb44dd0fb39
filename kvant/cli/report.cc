// kvant report: the page and the JSON of a stored run.
#include <cstdio>
#include <memory>

#include "kvant/cli/command.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/report/report_html.h"
#include "kvant/report/report_json.h"
#include "kvant/report/report_json_check.h"

namespace kvant {

namespace {

struct ReportFlags {
  std::string folder;
  std::string rules;
  int64_t run = 0;
  bool json = false;
};

int CandidatesExitCode(const Json& report) {
  return VerdictExitCode(VerdictOf(report, report["config"]["candidate"].get<std::string>()));
}

// The page of a report.json from elsewhere, beside it.
int RenderFile(const ReportFlags& flags) {
  constexpr uint64_t kMaxBytes = 64 << 20;
  if (flags.run != 0 || !flags.rules.empty()) {
    throw Error(ErrorCode::kUsage, "--run and --rules need the stored samples",
                "give the experiment's folder, not its report.json");
  }
  const std::string text = ReadWholeFile(flags.folder, kMaxBytes);
  const Json report = ParseReport(text, flags.folder);
  const std::filesystem::path page = std::filesystem::path(flags.folder).replace_extension(".html");
  WriteFileAtomically(page, RenderReportHtml(report));
  std::printf("%s\n", flags.json ? report.dump(1).c_str() : page.c_str());
  return CandidatesExitCode(report);
}

int MakeReport(const ReportFlags& flags) {
  const std::filesystem::path folder = flags.folder;
  if (std::filesystem::is_regular_file(folder)) return RenderFile(flags);
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
  return CandidatesExitCode(report);
}

}  // namespace

void AddReportCommand(CLI::App* app, CommandBody* body) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app->add_subcommand(
      "report",
      "Write report.html and report.json of a stored run again, perhaps by other rules\n\n"
      "Examples:\n"
      "  kvant report out/mine --rules strict.json\n"
      "  kvant report report.json             # the page of a report from elsewhere");
  command->add_option("folder", flags->folder, "the experiment's --out folder, or a report.json")
      ->required();
  command->add_option("--run", flags->run, "number of the run (default: the last)");
  command->add_option("--rules", flags->rules, "verdict rules (JSON)");
  command->add_flag("--json", flags->json, "the report's JSON on stdout");
  command->callback([flags, body] { *body = [flags] { return MakeReport(*flags); }; });
}

}  // namespace kvant
