#include "kvant/report/page_style.h"

namespace kvant {

std::string_view PageStyle() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f6f8; --ink: #1b1f24; --soft: #555c66; --line: #d3d7dd;
  --ship: #13683a; --canary: #7d4f00; --stop: #b01c24; --unsure: #444f9c;
  --ship-panel: #e7f5ec; --canary-panel: #fdf3dc; --stop-panel: #fdeaea; --unsure-panel: #eceefb;
  --s0: #0b62a4; --s1: #b3420a; --s2: #11774f; --s3: #9b2d86; --s4: #8a6100; --s5: #00737d;
  --s6: #b3262e; --floor: #8b929c;
  --loss1: #fde5dc; --loss2: #f9c3ad; --loss3: #f09a7c; --gain1: #e0ecfa; --gain2: #b5d3f3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --panel: #1e2228; --ink: #e8eaed; --soft: #a9b0ba; --line: #3a414b;
    --ship: #6fd39a; --canary: #f0c060; --stop: #ff8f8f; --unsure: #aab4ff;
    --ship-panel: #14291d; --canary-panel: #2e2510; --stop-panel: #331a1b; --unsure-panel: #20243c;
    --s0: #6cb6f5; --s1: #f79463; --s2: #5fcf9c; --s3: #e391d4; --s4: #e0b653; --s5: #4fcad4;
    --s6: #ff8a8a; --floor: #7c8591;
    --loss1: #3b241c; --loss2: #5e2d1c; --loss3: #85351a; --gain1: #1b2a3c; --gain2: #1e4063;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, Roboto, Ubuntu, sans-serif;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
h3 { font-size: 1.05rem; margin: 1.25rem 0 0.25rem; overflow-wrap: anywhere; }
p { margin: 0.5rem 0; max-width: 48rem; overflow-wrap: anywhere; }
ul { padding-left: 1.25rem; margin: 0.25rem 0; }
li { max-width: 48rem; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 0.875em;
  overflow-wrap: anywhere; }
pre { white-space: pre-wrap; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: 0.75rem; }
small, .soft { color: var(--soft); font-size: 0.85rem; }
.notice { border-left: 4px solid var(--canary); background: var(--canary-panel);
  padding: 0.5rem 0.75rem; }
.verdicts { display: grid; gap: 0.75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.verdict { border: 1px solid var(--line); border-left: 6px solid var(--tone);
  border-radius: 6px; padding: 0.6rem 0.9rem; background: var(--tone-panel); }
.verdict h3 { margin: 0; color: var(--tone); }
.verdict p, .verdict li { font-size: 0.925rem; }
.verdict.candidate { grid-column: 1 / -1; border-width: 2px 2px 2px 8px;
  border-color: var(--tone); }
.verdict.candidate h3 { font-size: 1.5rem; line-height: 1.3; }
.ship { --tone: var(--ship); --tone-panel: var(--ship-panel); }
.canary { --tone: var(--canary); --tone-panel: var(--canary-panel); }
.stop { --tone: var(--stop); --tone-panel: var(--stop-panel); }
.unsure { --tone: var(--unsure); --tone-panel: var(--unsure-panel); }
.scroll { overflow-x: auto; margin: 0.75rem 0; border: 1px solid var(--line);
  border-radius: 6px; max-width: 100%; width: fit-content; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.5rem 0.6rem; color: var(--soft); position: sticky;
  left: 0; max-width: calc(100vw - 2.2rem); }
th, td { padding: 0.3rem 0.5rem; text-align: right; vertical-align: top; white-space: nowrap;
  border-top: 1px solid var(--line); }
thead th { background: var(--panel); white-space: normal; vertical-align: bottom;
  min-width: 4.5rem; line-height: 1.25; }
th:first-child, .words td { text-align: left; }
tbody th { font-weight: 600; white-space: normal; min-width: 9rem; overflow-wrap: anywhere; }
tbody th, thead th:first-child { position: sticky; left: 0; background: var(--page); }
thead th:first-child { background: var(--panel); }
.words td { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; }
td small, th small { display: block; font-weight: 400; font-size: 0.78rem; white-space: normal;
  max-width: 10.5rem; margin-left: auto; }
th small { margin-left: 0; }
@media (max-width: 30rem) {
  tbody th { min-width: 7.5rem; font-size: 0.8rem; }
}
details { margin: 0.5rem 0; }
summary { cursor: pointer; color: var(--soft); padding: 0.25rem 0; }
figure { margin: 1rem 0; max-width: 34rem; }
figcaption { font-weight: 600; font-size: 0.95rem; margin-bottom: 0.4rem;
  overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 12px; fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.mark { stroke: var(--ink); stroke-width: 2; }
polyline { fill: none; stroke: var(--tone); stroke-width: 2; stroke-linejoin: round; }
circle { fill: var(--tone); stroke: var(--page); stroke-width: 1; }
rect { fill: var(--tone); }
.whisker { stroke: var(--tone); stroke-width: 1.5; }
.area { fill: var(--tone); opacity: 0.22; }
.series-baseline { --tone: var(--ink); }
.series-floor { --tone: var(--floor); }
.series-0 { --tone: var(--s0); }
.series-1 { --tone: var(--s1); }
.series-2 { --tone: var(--s2); }
.series-3 { --tone: var(--s3); }
.series-4 { --tone: var(--s4); }
.series-5 { --tone: var(--s5); }
.series-6 { --tone: var(--s6); }
.series-1 polyline, .series-5 polyline { stroke-dasharray: 7 3; }
.series-2 polyline, .series-6 polyline { stroke-dasharray: 2 3; }
.series-3 polyline, .series-floor polyline { stroke-dasharray: 9 3 2 3; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; padding: 0;
  font-size: 0.875rem; }
.legend li { display: flex; align-items: center; gap: 0.4rem; }
.legend svg { width: 28px; flex: none; }
.maps { display: flex; flex-wrap: wrap; gap: 0 1.25rem; }
.maps .scroll { margin: 0.4rem 0; }
.maps td, .maps thead th { text-align: center; min-width: 5.5rem; max-width: 9rem; }
.maps td small { margin: 0 auto; max-width: 8.5rem; }
.maps tbody th { min-width: 5.5rem; }
.maps th:first-child { text-align: left; }
.loss1 { background: var(--loss1); } .loss2 { background: var(--loss2); }
.loss3 { background: var(--loss3); } .gain1 { background: var(--gain1); }
.gain2 { background: var(--gain2); }
.loss1 small, .loss2 small, .loss3 small, .gain1 small, .gain2 small { color: var(--ink); }
.blind { background: repeating-linear-gradient(135deg, transparent 0 6px, var(--line) 6px 7px); }
.alarm { color: var(--stop); font-weight: 700; }
@media print {
  .blind { background: none; font-style: italic; }
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 0.8rem; }
  .scroll { overflow: visible; border: 0; width: auto; }
  table { font-size: 0.68rem; }
  td small, th small { font-size: 0.62rem; }
  caption, tbody th, thead th:first-child { position: static; }
  th, td { padding: 0.15rem 0.3rem; }
  thead th, tbody th, .words td { min-width: 0; }
  figure, .verdict, tr { break-inside: avoid; }
  h2, h3, figcaption, caption { break-after: avoid; }
  figure { max-width: 30rem; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
}
)css";
}

}  // namespace kvant
