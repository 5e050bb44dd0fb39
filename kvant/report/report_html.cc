#include "kvant/report/report_html.h"

#include <fmt/format.h>

#include <utility>

#include "kvant/report/counts_section.h"
#include "kvant/report/divergence_section.h"
#include "kvant/report/generation_section.h"
#include "kvant/report/html_writer.h"
#include "kvant/report/memory_section.h"
#include "kvant/report/needle_section.h"
#include "kvant/report/page_style.h"
#include "kvant/report/provenance_section.h"
#include "kvant/report/report_fields.h"
#include "kvant/report/speed_section.h"
#include "kvant/report/summary_section.h"
#include "kvant/report/verdict_section.h"

namespace kvant {

namespace {

void WriteHead(const std::string& title, HtmlWriter* page) {
  page->Open("head");
  page->Void("meta", {{"charset", "utf-8"}});
  page->Void("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  page->Void("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  page->Element("title", title);
  page->Element("style", PageStyle());
  page->Close();
}

void WriteHeader(const Json& report, HtmlWriter* page) {
  const Json& config = Field(report, "config");
  page->Open("header");
  page->Element("h1", fmt::format("KV cache of {}",
                                  TextAt(Field(report, "model"), "name", "an unnamed model")));
  page->Element("p",
                fmt::format("Candidate {} against baseline {}. Preset {}, begun {}, Kvant {}.",
                            TextAt(config, "candidate", "—"), BaselineName(report),
                            TextAt(config, "preset", "—"), TextAt(report, "created", "—"),
                            TextAt(report, "kvant_version", "—")),
                {{"class", "soft"}});
  page->Close();
}

}  // namespace

std::string RenderReportHtml(const Json& report) {
  HtmlWriter page;
  const std::string model = TextAt(Field(report, "model"), "name", "unnamed model");
  page.Open("html", {{"lang", "en"}});
  WriteHead(fmt::format("Kvant report: {}", model), &page);
  page.Open("body");
  WriteHeader(report, &page);
  page.Open("main");
  WriteVerdictSection(report, &page);
  WriteSummarySection(report, &page);
  WriteMemorySection(report, &page);
  WriteDivergenceSection(report, &page);
  WriteNeedleSection(report, &page);
  WriteGenerationSection(report, &page);
  WriteSpeedSection(report, &page);
  WriteCountsSection(report, &page);
  WriteProvenanceSection(report, &page);
  page.Close();
  page.Close();
  page.Close();
  return std::move(page).Finish();
}

}  // namespace kvant
