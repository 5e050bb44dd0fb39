// Results in one SQLite file: every run and every sample, written as it is made, so that a killed
// run resumes where it stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/core/json.h"

struct sqlite3;

namespace kvant {

// One measured thing. `key` names it within its run: a sample is made once.
struct StoredSample {
  std::string key;              // "divergence/int8/2048/doc3"
  std::string kind;             // "divergence"
  std::string group;            // "int8"; empty where the sample is of no group
  uint64_t bucket = 0;          // tokens; 0 where there is none
  Json payload;                 // the documented fields of its kind
  std::vector<uint8_t> values;  // bulk numbers, laid out as the kind says; may be empty
};

struct StoredRun {
  int64_t id = 0;
  std::string digest;  // of everything that decides the results
  Json config;
  Json environment;
  std::string created;  // ISO 8601, UTC
  bool complete = false;
};

class Store {
 public:
  // Opens or creates the file and takes its lock: a second process that writes to the same store
  // gets Error{kIo} at once, not a mixed result. Throws Error{kInvalidInput} for a file that is
  // not a Kvant store or of a newer version, Error{kIo} for a full disk and the like.
  explicit Store(const std::filesystem::path& path);
  // For reading only: takes no lock and never writes.
  static Store OpenForReading(const std::filesystem::path& path);
  ~Store();
  Store(Store&& other) noexcept;
  Store& operator=(Store&&) = delete;

  // The unfinished or finished run with this digest, or a new one.
  int64_t StartRun(std::string_view digest, const Json& config, const Json& environment);
  void FinishRun(int64_t run);

  bool Has(int64_t run, std::string_view key) const;
  // One transaction, flushed: a sample is there whole or not at all. A key that exists is left as
  // it is.
  void Put(int64_t run, const StoredSample& sample);

  // Throws Error{kNotFound}.
  StoredRun Run(int64_t run) const;
  std::vector<StoredRun> Runs() const;
  // In the order they were made; kind empty: all.
  std::vector<StoredSample> Samples(int64_t run, std::string_view kind) const;

 private:
  Store(const std::filesystem::path& path, bool writable);
  void CreateSchema();
  void CheckVersion() const;

  std::filesystem::path path_;
  sqlite3* database_ = nullptr;
};

}  // namespace kvant
