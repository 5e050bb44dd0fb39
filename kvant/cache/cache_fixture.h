// Sequences whose cache holds a recognisable pattern instead of K and V, for tests of the cache:
// every byte follows from the tokens up to its position, the group and the form, so that any mix-up
// of blocks shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvant/cache/block_table.h"
#include "kvant/cache/cache_layout.h"
#include "kvant/core/random.h"
#include "kvant/format/kv_format.h"

namespace kvant {

inline GroupLayout SealingGroup(uint32_t window, uint64_t open_bytes, uint64_t sealed_bytes,
                                uint32_t sinks = 0, uint32_t recent = 0) {
  GroupLayout group;
  group.window_tokens = window;
  group.open_block_bytes = open_bytes;
  group.sealed_block_bytes = sealed_bytes;
  group.sink_blocks = sinks;
  group.recent_blocks = recent;
  return group;
}

inline GroupLayout AppendGroup(uint32_t window, uint64_t bytes) {
  GroupLayout group = SealingGroup(window, 0, bytes);
  group.append = true;
  return group;
}

inline GroupLayout SixteenBitGroup(uint32_t window, uint64_t bytes) {
  GroupLayout group = SealingGroup(window, bytes, bytes);
  group.open_is_sealed = true;
  return group;
}

inline std::shared_ptr<const CacheLayout> MakeLayout(std::vector<GroupLayout> groups) {
  auto layout = std::make_shared<CacheLayout>();
  layout->groups = std::move(groups);
  for (size_t g = 0; g < layout->groups.size(); ++g) {
    layout->groups[g].layers = {static_cast<uint32_t>(g)};
    const GroupLayout& group = layout->groups[g];
    const uint64_t shape[] = {group.window_tokens, group.open_block_bytes, group.sealed_block_bytes,
                              group.append,        group.sink_blocks,      group.recent_blocks};
    for (const uint64_t value : shape) {
      layout->plan_digest[0] = static_cast<uint8_t>(RandomAt(layout->plan_digest[0], value) & 0xFF);
    }
  }
  return layout;
}

// Every way in which a group's blocks live, in sizes that are no multiples of each other or of a
// page.
inline std::vector<std::shared_ptr<const CacheLayout>> VariedLayouts() {
  return {
      MakeLayout({SealingGroup(0, 64 * 128, 64 * 68)}),
      MakeLayout({SealingGroup(0, 64 * 32, 64 * 17 + 24), SealingGroup(130, 64 * 96, 64 * 51)}),
      MakeLayout({AppendGroup(0, 64 * 64), AppendGroup(64, 64 * 33)}),
      MakeLayout({SixteenBitGroup(0, 64 * 128), SixteenBitGroup(100, 64 * 160)}),
      MakeLayout({SealingGroup(0, 64 * 20, 64 * 11, 2, 0), SealingGroup(200, 64 * 24, 64 * 7, 1)}),
      MakeLayout({SealingGroup(0, 64 * 40, 64 * 21, 1, 2), SealingGroup(1, 64 * 12, 64 * 3, 0, 1),
                  SixteenBitGroup(0, 64 * 8)}),
      MakeLayout({SealingGroup(257, 64 * 50, 64 * 27)}),
  };
}

struct TestSequence {
  TestSequence(BlockPool& pool, std::shared_ptr<const CacheLayout> layout)
      : table(pool, std::move(layout)) {}
  TestSequence(BlockTable fork, const TestSequence& parent)
      : table(std::move(fork)), tokens(parent.tokens), history(parent.history) {}

  BlockTable table;
  std::vector<int32_t> tokens;    // may run ahead of the table
  std::vector<uint64_t> history;  // a hash of all tokens up to each position

  void AddToken(int32_t token) {
    const uint64_t past = history.empty() ? 0 : history.back();
    tokens.push_back(token);
    history.push_back(RandomAt(past, static_cast<uint32_t>(token)));
  }
};

enum class Form : uint64_t { kOpen, kSealed };

class PatternCache {
 public:
  // Plays the kernels between Prepare and Commit: writes `count` tokens, then seals.
  static void RunStep(TestSequence& sequence, uint64_t count) {
    BlockTable& table = sequence.table;
    const uint64_t begin = table.tokens();
    for (size_t g = 0; g < table.layout().groups.size(); ++g) {
      const GroupLayout& group = table.layout().groups[g];
      const Form written = group.append ? Form::kSealed : Form::kOpen;
      for (uint64_t p = begin; p < begin + count; ++p) Write(sequence, g, p, written);
      const auto [first, last] = table.blocks_to_seal(g);
      for (uint64_t p = first * kBlockTokens; p < last * kBlockTokens; ++p) {
        ASSERT_TRUE(Holds(sequence, g, p, Form::kOpen)) << "position " << p;
        Write(sequence, g, p, Form::kSealed);
      }
    }
  }

  // Checks after a Commit that everything the next token sees is there, in the form in which it
  // must be seen, unchanged, and that nothing else is there.
  static void ExpectIntact(const TestSequence& sequence) {
    const BlockTable& table = sequence.table;
    const uint64_t tokens = table.tokens();
    for (size_t g = 0; g < table.layout().groups.size(); ++g) {
      const GroupLayout& group = table.layout().groups[g];
      const auto blocks = table.blocks(g);
      ASSERT_EQ(blocks.size(), (tokens + kBlockTokens - 1) / kBlockTokens);
      for (uint64_t j = 0; j < blocks.size(); ++j) {
        const uint64_t last_position = j * kBlockTokens + kBlockTokens - 1;
        const bool seen = group.window_tokens == 0 || last_position + group.window_tokens > tokens;
        const bool stays_open =
            j < group.sink_blocks || j + group.recent_blocks >= tokens / kBlockTokens;
        const bool open = seen && !group.append && (group.open_is_sealed || stays_open);
        const bool sealed = seen && (group.append || group.open_is_sealed || !stays_open);
        ASSERT_EQ(blocks[j].open != nullptr, open) << "group " << g << " block " << j;
        ASSERT_EQ(blocks[j].sealed != nullptr, sealed) << "group " << g << " block " << j;
        ASSERT_TRUE(!group.open_is_sealed || blocks[j].open == blocks[j].sealed);
        const Form form = open ? Form::kOpen : Form::kSealed;
        const uint64_t end = std::min(tokens, last_position + 1);
        for (uint64_t p = j * kBlockTokens; seen && p < end; ++p) {
          ASSERT_TRUE(Holds(sequence, g, p, form)) << "group " << g << " position " << p;
        }
      }
    }
  }

 private:
  static std::span<uint8_t> Record(const TestSequence& sequence, size_t group, uint64_t position,
                                   Form form) {
    const GroupLayout& layout = sequence.table.layout().groups[group];
    const BlockPointers& block = sequence.table.blocks(group)[position / kBlockTokens];
    uint8_t* data = form == Form::kOpen ? block.open : block.sealed;
    const uint64_t bytes =
        form == Form::kOpen ? layout.open_block_bytes : layout.sealed_block_bytes;
    const uint64_t record = bytes / kBlockTokens;
    return {data + position % kBlockTokens * record, record};
  }

  static uint64_t Pattern(const TestSequence& sequence, size_t group, uint64_t position,
                          Form form) {
    return RandomAt(sequence.history[position], 2 * group + static_cast<uint64_t>(form));
  }

  static void Write(const TestSequence& sequence, size_t group, uint64_t position, Form form) {
    const uint64_t pattern = Pattern(sequence, group, position, form);
    uint64_t shift = 0;
    for (uint8_t& byte : Record(sequence, group, position, form)) {
      byte = static_cast<uint8_t>(pattern >> shift);
      shift = (shift + 8) % 64;
    }
  }

  static bool Holds(const TestSequence& sequence, size_t group, uint64_t position, Form form) {
    const uint64_t pattern = Pattern(sequence, group, position, form);
    uint64_t shift = 0;
    for (const uint8_t byte : Record(sequence, group, position, form)) {
      if (byte != static_cast<uint8_t>(pattern >> shift)) return false;
      shift = (shift + 8) % 64;
    }
    return true;
  }
};

}  // namespace kvant
