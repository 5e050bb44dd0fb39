#include "kvant/cache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
