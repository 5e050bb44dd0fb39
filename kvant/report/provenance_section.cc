#include "kvant/report/provenance_section.h"

#include <fmt/format.h>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"

namespace kvant {

namespace {

void WriteLines(const Json& report, const char* key, const char* otherwise, HtmlWriter* page) {
  const std::vector<std::string> lines = TextsAt(report, key);
  if (lines.empty()) {
    page->Element("p", otherwise);
    return;
  }
  page->Open("ul");
  for (const std::string& line : lines) page->Element("li", line);
  page->Close();
}

void WriteCalibration(const Json& report, HtmlWriter* page) {
  const Json& effect = Field(report, "calibration_effect");
  page->Open("section");
  page->Element("h2", "Did calibration make a difference?");
  page->Open("p");
  page->Element("strong", TextAt(effect, "verdict", "not measured") + ".");
  page->Text(TextAt(effect, "text"));
  page->Close();
  page->Close();
}

void WriteControls(const Json& report, HtmlWriter* page) {
  const Json& negative = Field(Field(report, "controls"), "negative");
  page->Open("section");
  page->Element("h2", "Controls");
  if (negative.is_object()) {
    page->Element("p", fmt::format("Negative control {}: {}", TextAt(negative, "group", "unnamed"),
                                   TextAt(negative, "text", "not measured")));
  } else {
    page->Element("p",
                  "Negative control: not measured, so nothing shows that this run could see "
                  "damage.");
  }
  for (const Json* group : GroupsInOrder(report)) {
    if (TextAt(*group, "role") != "floor") continue;
    page->Element("p", fmt::format("Noise floor {}: its distance from the baseline is what the "
                                   "baseline's own rounding does.",
                                   TextAt(*group, "name", "unnamed")));
  }
  page->Close();
}

std::string CountField(const Json& object, const char* key) {
  return CountText(NumberAt(object, key));
}

std::string TextOf(const Json& object, const char* key) { return TextAt(object, key, "—"); }

std::string ApartText(const Json& calibration) {
  const auto apart = FlagAt(calibration, "apart_from_evaluation");
  if (!apart) return "—";
  return *apart ? "yes" : "not known: the scales were made from another text";
}

using Facts = std::vector<std::pair<std::string, std::string>>;

void WriteFacts(const std::string& caption, const Facts& facts, HtmlWriter* page) {
  Table table;
  table.caption = caption;
  table.columns = {"What", "Value"};
  table.css_class = "words";
  for (const auto& [name, value] : facts) {
    table.rows.push_back({{name, "", ""}, {value, "", ""}});
  }
  WriteTable(table, page);
}

void WriteModel(const Json& report, HtmlWriter* page) {
  const Json& model = Field(report, "model");
  const auto bias = FlagAt(model, "k_bias");
  WriteFacts("Model",
             {{"Name", TextOf(model, "name")},
              {"Architecture", TextOf(model, "architecture")},
              {"SHA-256", TextOf(model, "sha256")},
              {"Layers", CountField(model, "layers")},
              {"KV heads", CountField(model, "kv_heads")},
              {"Query heads", CountField(model, "query_heads")},
              {"Head dimension", CountField(model, "head_dim")},
              {"Context length, tokens", CountField(model, "context_length")},
              {"Bias on K", bias ? (*bias ? "yes" : "no") : "—"},
              {"Sliding-window layers", CountField(model, "sliding_window_layers")}},
             page);
}

void WriteMachine(const Json& report, HtmlWriter* page) {
  const Json& environment = Field(report, "environment");
  WriteFacts("Machine and program",
             {{"CPU", TextOf(environment, "cpu")},
              {"CPUs", CountField(environment, "cpus")},
              {"Instruction set used", TextOf(environment, "isa")},
              {"Threads", CountField(environment, "threads")},
              {"Memory budget", BytesText(NumberAt(environment, "memory_budget_bytes"))},
              {"Operating system", TextOf(environment, "os")},
              {"Compiler", TextOf(environment, "compiler")},
              {"Kvant", TextOf(report, "kvant_version")}},
             page);
}

std::string BucketList(const Json& config) {
  std::string list;
  for (const Json& bucket : RowsAt(config, "buckets")) {
    if (!bucket.is_number()) continue;
    list += (list.empty() ? "" : ", ") + TokensText(bucket.get<double>());
  }
  return list.empty() ? "—" : list;
}

void WriteRun(const Json& report, HtmlWriter* page) {
  const Json& config = Field(report, "config");
  const Json& calibration = Field(config, "calibration");
  const Json& evaluation = Field(config, "evaluation");
  WriteFacts("Run and texts",
             {{"Preset", TextOf(config, "preset")},
              {"Buckets, tokens", BucketList(config)},
              {"Seed", CountField(config, "seed")},
              {"Digest of the configuration", TextOf(config, "digest")},
              {"Evaluation text, SHA-256", TextOf(evaluation, "sha256")},
              {"Evaluation text, tokens", CountField(evaluation, "tokens")},
              {"Calibration text, SHA-256", TextOf(calibration, "sha256")},
              {"Calibration text, tokens", CountField(calibration, "tokens")},
              {"Calibration sequences", CountField(calibration, "sequences")},
              {"Calibration text apart from evaluation", ApartText(calibration)}},
             page);
}

void WriteGroups(const Json& report, HtmlWriter* page) {
  Table table;
  table.caption = "Groups: what each one is.";
  table.columns = {"Group", "Plan", "In words", "Scales", "Digest"};
  table.css_class = "words";
  for (const Json* group : GroupsInOrder(report)) {
    table.rows.push_back({{TextAt(*group, "name", "unnamed"), "", ""},
                          {TextOf(*group, "plan"), "", ""},
                          {TextOf(*group, "description"), "", ""},
                          {TextOf(*group, "scale_source"), "", ""},
                          {Shortened(TextOf(*group, "digest"), 17), "", ""}});
  }
  WriteTable(table, page);
}

void WriteCommand(const Json& report, HtmlWriter* page) {
  page->Open("section");
  page->Element("h2", "Make this report again");
  page->Open("pre");
  page->Element("code", TextAt(Field(report, "config"), "command", "not recorded"));
  page->Close();
  page->Close();
}

}  // namespace

void WriteProvenanceSection(const Json& report, HtmlWriter* page) {
  WriteCalibration(report, page);
  WriteControls(report, page);
  page->Open("section");
  page->Element("h2", "What was not measured");
  WriteLines(report, "not_measured", "Nothing was left out.", page);
  page->Close();
  page->Open("section");
  page->Element("h2", "Rules of the verdict");
  WriteLines(report, "rules", "Not recorded.", page);
  page->Close();
  page->Open("section");
  page->Element("h2", "Environment and digests");
  WriteGroups(report, page);
  WriteModel(report, page);
  WriteMachine(report, page);
  WriteRun(report, page);
  page->Close();
  WriteCommand(report, page);
}

}  // namespace kvant
