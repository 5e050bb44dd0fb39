// Where the two forms of one block lie in memory.
#pragma once

#include <cstdint>

namespace kvant {

// Base addresses of one block of one layer group: every layer of the group lies at its own offset.
// open: 16-bit form; sealed: the form that the layers' formats say. Either may be null: a block
// has not been sealed yet, has dropped its 16-bit form, or has left a sliding window.
struct BlockPointers {
  uint8_t* open = nullptr;
  uint8_t* sealed = nullptr;
};

}  // namespace kvant
