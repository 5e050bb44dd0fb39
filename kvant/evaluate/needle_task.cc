#include "kvant/evaluate/needle_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {

namespace {

constexpr std::array<std::string_view, 24> kColours = {
    "amber",  "azure",   "bronze",  "cobalt", "copper", "coral",  "crimson", "ebony",
    "golden", "indigo",  "ivory",   "jade",   "lilac",  "maroon", "olive",   "pearl",
    "russet", "saffron", "scarlet", "silver", "teal",   "umber",  "violet",  "walnut"};
constexpr std::array<std::string_view, 24> kPlaces = {
    "lighthouse", "granary",   "observatory", "cellar",   "workshop",   "pavilion",
    "aqueduct",   "boathouse", "chapel",      "foundry",  "greenhouse", "harbour",
    "library",    "mill",      "orchard",     "quarry",   "stable",     "tannery",
    "theatre",    "tower",     "vault",       "vineyard", "warehouse",  "well"};
constexpr std::array<std::string_view, 24> kPeople = {
    "the clerk",    "a surveyor",    "the gardener", "an engineer", "the baker",   "a carpenter",
    "the teacher",  "a sailor",      "the doctor",   "a printer",   "the miller",  "a weaver",
    "the captain",  "an apprentice", "the notary",   "a mason",     "the painter", "a shepherd",
    "the merchant", "a pilot",       "the botanist", "a courier",   "the cook",    "a violinist"};
constexpr std::array<std::string_view, 24> kActs = {
    "measured", "described", "repaired",  "counted",  "carried",  "painted",
    "sorted",   "inspected", "sketched",  "cleaned",  "moved",    "weighed",
    "labelled", "folded",    "collected", "examined", "borrowed", "returned",
    "polished", "arranged",  "wrapped",   "drew",     "stacked",  "listed"};
constexpr std::array<std::string_view, 32> kThings = {
    "the old maps",        "seven baskets",     "a broken clock",    "the wooden crates",
    "some dried herbs",    "the iron gate",     "a pair of lamps",   "the spare ropes",
    "several letters",     "the long ladder",   "a heavy anvil",     "the tin roof",
    "two clay jars",       "the market stalls", "a box of nails",    "the garden wall",
    "the evening papers",  "a bundle of reeds", "the stone bridge",  "three barrels",
    "the winter coats",    "a set of scales",   "the copper kettle", "the ferry tickets",
    "a row of seedlings",  "the painted sign",  "the ledger",        "an empty cart",
    "the brass telescope", "some fresh bread",  "the narrow path",   "a folded blanket"};
constexpr std::array<std::string_view, 24> kTimes = {
    "before noon",         "after the rain",       "on a quiet morning",  "late in the evening",
    "during the festival", "while the bells rang", "at the end of May",   "in the first week",
    "without much haste",  "with great care",      "for the second time", "near the river",
    "behind the station",  "under a grey sky",     "as the fog lifted",   "once again",
    "in the usual order",  "by candlelight",       "at the crossing",     "with a neighbour",
    "along the shore",     "before the meeting",   "in spring",           "on the way home"};
constexpr std::array<std::string_view, 8> kLinks = {
    "", "", "", "Later, ", "Meanwhile, ", "That day, ", "Soon after, ", "Elsewhere, "};

template <size_t N>
std::string_view Pick(const std::array<std::string_view, N>& words, Random* random) {
  return words[random->Below(N)];
}

std::string Sentence(Random* random) {
  std::string text = fmt::format("{}{} {} {} {}.", Pick(kLinks, random), Pick(kPeople, random),
                                 Pick(kActs, random), Pick(kThings, random), Pick(kTimes, random));
  text[0] = static_cast<char>(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 32 : text[0]);
  return text;
}

std::string NeedleSentence(const Needle& needle) {
  return fmt::format("The access code of the {} is {}.", needle.key, needle.value);
}

std::vector<Needle> MakeNeedles(const NeedleOptions& options, Random* random) {
  std::vector<Needle> needles;
  std::set<std::string> keys;
  while (needles.size() < options.depths.size()) {
    const std::string key = fmt::format("{} {}", Pick(kColours, random), Pick(kPlaces, random));
    if (!keys.insert(key).second) continue;
    needles.push_back(
        {key, fmt::format("{}", 10000 + random->Below(90000)), options.depths[needles.size()]});
  }
  return needles;
}

constexpr std::string_view kOpening = "Notes from the town's daily register.\n\n";

// Needles go in front of the sentence that their share of the sentences points at; paragraphs of
// eight sentences.
std::string Assemble(const std::vector<std::string>& sentences,
                     const std::vector<Needle>& needles) {
  constexpr size_t kPerParagraph = 8;
  std::string text(kOpening);
  for (size_t i = 0; i <= sentences.size(); ++i) {
    for (const Needle& needle : needles) {
      const auto at = static_cast<size_t>(needle.depth * static_cast<double>(sentences.size()));
      if (std::min(at, sentences.size()) == i) text += NeedleSentence(needle) + " ";
    }
    if (i == sentences.size()) break;
    text += sentences[i] + ((i + 1) % kPerParagraph == 0 ? "\n\n" : " ");
  }
  while (text.back() == ' ' || text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string QuestionFor(const Needle& needle) {
  return fmt::format(
      "\n\nQuestion: What is the access code of the {}?\nAnswer: The access code of "
      "the {} is",
      needle.key, needle.key);
}

Haystack MakeHaystack(const NeedleOptions& options, const CountTokens& count_tokens) {
  if (options.depths.empty() || options.depths.size() > kColours.size()) {
    throw Error(ErrorCode::kUsage, "a haystack carries 1 to 24 needles");
  }
  Random random(options.seed);
  Haystack haystack;
  haystack.needles = MakeNeedles(options, &random);
  uint64_t question = 0;
  for (const Needle& needle : haystack.needles) {
    question = std::max(question, count_tokens(QuestionFor(needle)));
  }
  const uint64_t reserved = question + options.answer_tokens + 1;  // and a beginning token
  const uint64_t bare = count_tokens(Assemble({}, haystack.needles));
  if (bare + reserved > options.tokens) {
    throw Error(ErrorCode::kUsage,
                fmt::format("a bucket of {} tokens cannot hold {} needles: they need {}",
                            options.tokens, options.depths.size(), bare + reserved),
                "use a longer bucket or fewer depths");
  }
  // Grow by estimate, then trim by the true count: tokens do not add up exactly over sentences.
  std::vector<std::string> sentences;
  uint64_t estimate = bare;
  while (estimate + reserved < options.tokens) {
    sentences.push_back(Sentence(&random));
    estimate += std::max<uint64_t>(1, count_tokens(" " + sentences.back()));
  }
  haystack.text = Assemble(sentences, haystack.needles);
  while (!sentences.empty() && count_tokens(haystack.text) + reserved > options.tokens) {
    sentences.pop_back();
    haystack.text = Assemble(sentences, haystack.needles);
  }
  return haystack;
}

bool AnswersNeedle(std::string_view answer, const Needle& needle) {
  const size_t begin = answer.find_first_of("0123456789");
  if (begin == std::string_view::npos) return false;
  size_t end = begin;
  std::string digits;
  // "12,345" and "12345" are the same number.
  while (end < answer.size() && ((answer[end] >= '0' && answer[end] <= '9') ||
                                 (answer[end] == ',' && end + 1 < answer.size() &&
                                  answer[end + 1] >= '0' && answer[end + 1] <= '9'))) {
    if (answer[end] != ',') digits.push_back(answer[end]);
    ++end;
  }
  return digits == needle.value;
}

}  // namespace kvant
