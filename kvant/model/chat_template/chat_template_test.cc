#include "kvant/model/chat_template/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kvant/core/error.h"

namespace kvant {
namespace {

std::string Rendered(std::string_view source, const OrderedJson& extra = OrderedJson::object(),
                     const ChatTemplateLimits& limits = {}) {
  return ChatTemplate(std::string(source), limits)
      .Render(OrderedJson::array(), nullptr, false, extra);
}

// What the error says, or "" if there is none.
std::string Refusal(std::string_view source, const OrderedJson& extra = OrderedJson::object(),
                    const ChatTemplateLimits& limits = {}) {
  try {
    Rendered(source, extra, limits);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

bool Says(const std::string& message, std::string_view part) {
  return message.find(part) != std::string::npos;
}

std::string Repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(ChatTemplate, RendersAConversation) {
  const ChatTemplate chat_template(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}\n{% endfor %}"
      "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<a>{% endif %}");
  const auto messages =
      OrderedJson::parse(R"([{"role":"system","content":" s "},{"role":"user","content":"ü"}])");
  const auto tools = OrderedJson::parse(R"([{"z":1,"a":{"y":2.0,"b":null}}])");
  EXPECT_EQ(chat_template.Render(messages, nullptr, true, {{"bos_token", "<s>"}}),
            "<s><system>s\n<user>ü\n<a>");
  EXPECT_EQ(chat_template.Render(messages, &tools, false),
            "<system>s\n<user>ü\n[{\"z\": 1, \"a\": {\"y\": 2.0, \"b\": null}}]");
}

TEST(ChatTemplate, ExtraNamesDoNotReplaceTheConversation) {
  const ChatTemplate chat_template("{{ messages | length }}{{ add_generation_prompt }}");
  EXPECT_EQ(chat_template.Render(OrderedJson::array(), nullptr, false,
                                 {{"messages", "forged"}, {"add_generation_prompt", true}}),
            "0False");
}

TEST(ChatTemplate, TellsTheTimeItIsGiven) {
  const ChatTemplate chat_template("{{ strftime_now('%d %b %Y') }}");
  const std::chrono::system_clock::time_point leap_day{std::chrono::seconds(1709211909)};
  EXPECT_EQ(chat_template.Render(OrderedJson::array(), nullptr, false, {}, leap_day),
            "29 Feb 2024");
  EXPECT_EQ(chat_template.Render(OrderedJson::array(), nullptr, false).size(), 11U);
}

TEST(ChatTemplate, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(Refusal("a\n\n{{ 1 + }}"), "chat template, line 3: an expression is missing");
  EXPECT_EQ(Refusal("{% if x %}\n"), "chat template, line 1: 'endif' is missing");
  EXPECT_EQ(Refusal("\n{{ 'x"), "chat template, line 2: the string has no end");
  EXPECT_EQ(Refusal("\n\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(Refusal("{% macro m() %}\n\n{{ raise_exception('roles') }}{% endmacro %}\n{{ m() }}"),
            "chat template, line 3: roles");
  EXPECT_EQ(Refusal("{{ 'a' | nope }}"),
            "chat template, line 1: uses the filter 'nope', which is not known");
  EXPECT_TRUE(Says(Refusal("{{ '\xff' }}"), "not UTF-8"));
}

TEST(ChatTemplate, NothingOutsideTheConversationCanBeReached) {
  for (const std::string tag : {"{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
                                "{% from 'x' import y %}"}) {
    EXPECT_TRUE(Says(Refusal(tag), "not supported")) << tag;
  }
  EXPECT_TRUE(Says(Refusal("{{ ''.__class__.__mro__ }}"), "undefined"));
  EXPECT_TRUE(Says(Refusal("{{ [].append(1) }}"), "undefined"));
  EXPECT_TRUE(Says(Refusal("{{ {}.update({}) }}"), "undefined"));
  EXPECT_EQ(Rendered("{{ open is defined }}{{ ''['__class__'] is defined }}"), "FalseFalse");
}

TEST(ChatTemplate, HostileNestingIsRefusedAndDoesNotOverflowTheStack) {
  const std::vector<std::string> sources = {
      "{{ " + Repeated("(", 100000) + "1" + Repeated(")", 100000) + " }}",
      "{{ " + Repeated("[", 100000) + Repeated("]", 100000) + " }}",
      "{{ " + Repeated("{1:", 100000) + Repeated("}", 100000) + " }}",
      "{{ " + Repeated("not ", 100000) + "1 }}",
      "{{ " + Repeated("-", 100000) + "1 }}",
      "{{ 1" + Repeated(" + 1", 100000) + " }}",
      "{{ 1" + Repeated(" * 1", 100000) + " }}",
      "{{ 1" + Repeated(" ** 1", 100000) + " }}",
      "{{ 1" + Repeated(" and 1", 100000) + " }}",
      "{{ x" + Repeated(".a", 100000) + " }}",
      "{{ x" + Repeated("[0]", 100000) + " }}",
      "{{ x" + Repeated("()", 100000) + " }}",
      "{{ x" + Repeated("|trim", 100000) + " }}",
      "{{ x" + Repeated(" is defined", 50000) + " }}",
      "{{ 1" + Repeated(" if 1 else 1", 50000) + " }}",
      "{{ 1" + Repeated(" if 1", 50000) + " }}",
      Repeated("{% if 1 %}", 100000),
      Repeated("{% for a in b %}", 50000),
      "{% set " + Repeated("(", 100000) + "a" + Repeated(")", 100000) + " = 1 %}",
      "{% for " + Repeated("(", 100000) + "a" + Repeated(")", 100000) + " in b %}{% endfor %}",
  };
  for (const std::string& source : sources) {
    EXPECT_TRUE(Says(Refusal(source), "nested deeper than")) << source.substr(0, 30);
  }
  EXPECT_EQ(Rendered(Repeated("{% if 1 %}", 100) + "x" + Repeated("{% endif %}", 100)), "x");
}

TEST(ChatTemplate, LongFlatSourcesAreFine) {
  EXPECT_EQ(Rendered("{{ 1" + Repeated(" ~ 1", 10000) + " }}").size(), 10001U);
  EXPECT_EQ(Rendered("{{ 1" + Repeated(" == 1", 10000) + " }}"), "True");
  EXPECT_EQ(Rendered("{% if 0 %}" + Repeated("{% elif 0 %}", 10000) + "{% else %}x{% endif %}"),
            "x");
  EXPECT_EQ(Rendered("{{ [" + Repeated("1,", 10000) + "]|length }}"), "10000");
  EXPECT_TRUE(Says(Refusal(Repeated("a", (1U << 20) + 1)), "bytes"));
}

TEST(ChatTemplate, RecursionIsBounded) {
  EXPECT_TRUE(Says(Refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "deeper than"));
  EXPECT_TRUE(Says(Refusal("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}"
                           "{% for x in [1] %}{% if true %}{{ a() }}{% endif %}{% endfor %}"
                           "{% endmacro %}{{ a() }}"),
                   "deeper than"));
  EXPECT_TRUE(Says(Refusal("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}"
                           "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"),
                   "nested deeper"));
  EXPECT_TRUE(Says(Refusal("{% set ns = namespace(x='a') %}{% for i in range(1000) %}"
                           "{% set ns.x = {'k': ns.x}.get %}{% endfor %}"),
                   "nested deeper"));
  OrderedJson deep = 1;
  for (int i = 0; i < 500; ++i) deep = OrderedJson::array({deep});
  EXPECT_TRUE(Says(Refusal("x", {{"deep", deep}}), "nested deeper"));
}

TEST(ChatTemplate, CyclesThroughANamespaceEndAndLeakNothing) {
  EXPECT_EQ(Rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns, ns] %}"
                     "{% macro m() %}{% endmacro %}{% set ns.m = m %}{{ ns.me.me == ns }}"),
            "True");
  EXPECT_TRUE(Says(Refusal("{% set ns = namespace() %}{% set ns.l = [ns] %}{{ ns.l }}"), "prints"));
}

TEST(ChatTemplate, WorkIsBounded) {
  EXPECT_TRUE(Says(Refusal("{{ range(1000000000) }}"), "range has more than"));
  EXPECT_TRUE(
      Says(Refusal("{{ range(-9223372036854775807, 9223372036854775807) }}"), "range has more"));
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}"
      "{% endfor %}{% endfor %}";
  ChatTemplateLimits million;
  million.steps = 1'000'000;
  EXPECT_TRUE(Says(Refusal(loops, {}, million), "1000000 steps"));
  ChatTemplateLimits few;
  few.steps = 1000;
  EXPECT_TRUE(Says(Refusal("{% for a in range(900) %}{{ a }}{% endfor %}", {}, few), "steps"));
}

TEST(ChatTemplate, MemoryIsBounded) {
  EXPECT_TRUE(Says(Refusal("{{ 'a' * 1000000000 }}"), "text of more than"));
  EXPECT_TRUE(Says(Refusal("{{ 'ab' * 9223372036854775807 }}"), "more than"));
  EXPECT_TRUE(Says(Refusal("{{ [1] * 1000000000 }}"), "list of more than"));
  EXPECT_TRUE(Says(Refusal("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}"
                           "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
                   "text of more than"));
  EXPECT_TRUE(Says(Refusal("{% set ns = namespace(x=[1]) %}{% for i in range(90) %}"
                           "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
                   "more than"));
  EXPECT_TRUE(Says(Refusal("{% set ns = namespace(x=[], y=[]) %}{% for i in range(90) %}"
                           "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
                           "{{ ns.x == ns.y }}"),
                   "steps"));
  EXPECT_TRUE(Says(Refusal("{{ ('a' * 10000).replace('', 'b' * 10000) }}"), "more than"));
  EXPECT_TRUE(Says(Refusal("{{ ('b' * 5000).join('a' * 10000) }}"), "more than"));
  EXPECT_TRUE(Says(Refusal("{{ 'x'.center(1000000000) }}"), "too far"));
  EXPECT_TRUE(Says(Refusal("{{ strftime_now('%1000d' * 9) }}"), "too long"));
  ChatTemplateLimits small;
  small.output_bytes = 100;
  EXPECT_TRUE(Says(Refusal("{% for a in range(50) %}abc{% endfor %}", {}, small), "writes more"));
}

TEST(ChatTemplate, SearchesInTextsThatResembleThePartAreFast) {
  const std::string base = "{% set part = 'a' * 1000000 ~ 'b' %}{% set text = 'a' * 4000000 %}";
  EXPECT_EQ(Rendered(base + "{{ part in text }}{{ text.find(part) }}{{ text.rfind('b' ~ part) }}"),
            "False-1-1");
  EXPECT_EQ(Rendered(base + "{{ text.split(part)|length }}{{ text.rsplit('b' ~ part)|length }}"
                            "{{ text.count(part) }}{{ text|replace(part, '')|length }}"),
            "1104000000");
  EXPECT_EQ(Rendered(base + "{{ text.strip(part)|length }}"), "0");
}

TEST(ChatTemplate, NumbersThatDoNotFitAreRefused) {
  for (const std::string expression :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "2 ** 64",
        "99999999999999999999", "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)",
        "10 ** 400", "1 // 0", "1 % 0", "1.0 / 0", "[9223372036854775807, 1]|sum"}) {
    EXPECT_NE(Refusal("{{ " + expression + " }}"), "") << expression;
  }
  EXPECT_EQ(Rendered("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_EQ(Rendered("{{ 'abc'[9223372036854775807:] }}{{ 'abc'[::9223372036854775807] }}"), "a");
  EXPECT_EQ(Rendered("{{ 'abc'[::-9223372036854775807] }}{{ '1e999'|int }}"), "c0");
}

TEST(ChatTemplate, InputBytesThatAreNotUtf8BecomeReplacementCharacters) {
  EXPECT_EQ(Rendered("{{ x }}{{ x | length }}", {{"x", "a\xff\xe2\x82z"}}),
            "a\xEF\xBF\xBD\xEF\xBF\xBDz4");
}

TEST(ChatTemplate, MessagesThatAreNoArrayAreRefused) {
  EXPECT_THROW(ChatTemplate("x").Render(OrderedJson::object(), nullptr, true), Error);
}

TEST(ChatTemplate, ThreadsMayShareOne) {
  const ChatTemplate chat_template(
      "{% set x = namespace(n=0) %}{% for i in range(100) %}{% set x.n = x.n + i %}{% endfor %}"
      "{{ x.n ~ 'literal' | upper }}");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&chat_template] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(chat_template.Render(OrderedJson::array(), nullptr, true), "4950LITERAL");
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvant
