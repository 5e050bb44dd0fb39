#include "kvant/memory/memory_budget.h"

#include <fmt/format.h>

#include "kvant/cache/block_table.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"

namespace kvant {

MemoryBudget MakeMemoryBudget(uint64_t total, const FixedBytes& fixed, uint64_t smallest_pool) {
  MemoryBudget budget;
  budget.total = total;
  budget.weights = fixed.weights;
  budget.workspace = fixed.workspace;
  budget.logits = fixed.logits;
  budget.tokenizer = fixed.tokenizer;
  uint64_t needed = CheckedAdd(fixed.weights, fixed.workspace, "memory budget");
  needed = CheckedAdd(needed, fixed.logits, "memory budget");
  needed = CheckedAdd(needed, fixed.tokenizer, "memory budget");
  budget.pool = total > needed ? total - needed : 0;
  if (budget.pool < smallest_pool || budget.pool == 0) {
    throw Error(ErrorCode::kOverBudget,
                fmt::format("a memory budget of {} is too small: {}; one sequence needs {} of KV "
                            "pool",
                            FormatBytes(total), DescribeBudget(budget), FormatBytes(smallest_pool)),
                fmt::format("give at least --memory {}MiB",
                            DivideRoundUp(needed + smallest_pool, 1ULL << 20)));
  }
  return budget;
}

std::string DescribeBudget(const MemoryBudget& budget) {
  return fmt::format("{} = weights {} + workspace {} + logits {} + tokenizer {} + KV pool {}",
                     FormatBytes(budget.total), FormatBytes(budget.weights),
                     FormatBytes(budget.workspace), FormatBytes(budget.logits),
                     FormatBytes(budget.tokenizer), FormatBytes(budget.pool));
}

uint64_t SequencesThatFit(const CacheLayout& layout, uint64_t pool_bytes, uint64_t tokens,
                          uint64_t chunk_tokens) {
  const uint64_t each = PeakBytes(layout, tokens, 1);
  const uint64_t headroom = StepHeadroomBytes(layout, chunk_tokens);
  return each == 0 || pool_bytes <= headroom ? 0 : (pool_bytes - headroom) / each;
}

}  // namespace kvant
