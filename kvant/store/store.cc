#include "kvant/store/store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "kvant/core/error.h"

namespace kvant {

namespace {

constexpr int kSchemaVersion = 1;
// Marks the file as Kvant's (SQLite's application_id): "Kvnt".
constexpr int kApplicationId = 0x4B766E74;

[[noreturn]] void Fail(sqlite3* database, const std::filesystem::path& path, int code) {
  const char* why = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorCode::kIo, fmt::format("{} is in use by another run", path.string()),
                  "wait for it, or choose another --out folder");
    case SQLITE_FULL:
      throw Error(ErrorCode::kIo, fmt::format("{}: the disk is full", path.string()),
                  "free space and run the same command again: it resumes");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{} is not a Kvant store: {}", path.string(), why),
                  "remove it or choose another --out folder");
    default:
      throw Error(ErrorCode::kIo, fmt::format("{}: {}", path.string(), why));
  }
}

// A prepared statement, bound and stepped.
class Statement {
 public:
  Statement(sqlite3* database, const std::filesystem::path& path, const char* sql)
      : database_(database), path_(path) {
    Check(sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int index, int64_t value) {
    Check(sqlite3_bind_int64(statement_, index, value));
    return *this;
  }
  Statement& Bind(int index, std::string_view text) {
    Check(sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  Statement& Bind(int index, const std::vector<uint8_t>& bytes) {
    // An empty vector's null pointer would bind NULL, not an empty blob.
    Check(bytes.empty() ? sqlite3_bind_zeroblob(statement_, index, 0)
                        : sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(),
                                              SQLITE_TRANSIENT));
    return *this;
  }

  // True while there is a row.
  bool Step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) Fail(database_, path_, code);
    return false;
  }

  int64_t Integer(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Text(int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr
               ? std::string()
               : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }
  std::vector<uint8_t> Blob(int column) {
    const auto* bytes = static_cast<const uint8_t*>(sqlite3_column_blob(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::vector<uint8_t>() : std::vector<uint8_t>(bytes, bytes + size);
  }

 private:
  void Check(int code) {
    if (code != SQLITE_OK) Fail(database_, path_, code);
  }

  sqlite3* database_;
  const std::filesystem::path& path_;
  sqlite3_stmt* statement_ = nullptr;
};

void Execute(sqlite3* database, const std::filesystem::path& path, const std::string& sql) {
  const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) Fail(database, path, code);
}

StoredRun ReadRun(Statement* row, const std::filesystem::path& path) {
  StoredRun run;
  run.id = row->Integer(0);
  run.digest = row->Text(1);
  run.config = ParseJson(row->Text(2), path.string());
  run.environment = ParseJson(row->Text(3), path.string());
  run.created = row->Text(4);
  run.complete = row->Integer(5) != 0;
  return run;
}

constexpr const char* kRunColumns = "id, digest, config, environment, created, complete";

}  // namespace

Store::Store(const std::filesystem::path& path) : Store(path, true) {
  // An exclusive lock for the life of the process: two runs never write to one store.
  Execute(database_, path_, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=FULL;");
  Execute(database_, path_, "BEGIN EXCLUSIVE; COMMIT;");
  CreateSchema();
  CheckVersion();
}

Store::Store(const std::filesystem::path& path, bool writable) : path_(path) {
  const int flags = writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const int code = sqlite3_open_v2(path.c_str(), &database_, flags, nullptr);
  if (code == SQLITE_OK) return;
  const std::string why = sqlite3_errstr(code);
  sqlite3_close(std::exchange(database_, nullptr));
  throw Error(ErrorCode::kIo, fmt::format("cannot open {}: {}", path.string(), why));
}

Store Store::OpenForReading(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCode::kNotFound, fmt::format("there is no store at {}", path.string()));
  }
  Store store(path, false);
  store.CheckVersion();
  return store;
}

Store::~Store() { sqlite3_close(database_); }

Store::Store(Store&& other) noexcept
    : path_(std::move(other.path_)), database_(std::exchange(other.database_, nullptr)) {}

void Store::CreateSchema() {
  Statement version(database_, path_, "PRAGMA user_version");
  version.Step();
  if (version.Integer(0) != 0) return;
  Execute(database_, path_,
          fmt::format("BEGIN;"
                      "PRAGMA application_id={};"
                      "CREATE TABLE IF NOT EXISTS run("
                      " id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, config TEXT NOT NULL,"
                      " environment TEXT NOT NULL,"
                      " created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ','now')),"
                      " complete INTEGER NOT NULL DEFAULT 0);"
                      "CREATE TABLE IF NOT EXISTS sample("
                      " id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id),"
                      " key TEXT NOT NULL, kind TEXT NOT NULL, grp TEXT NOT NULL,"
                      " bucket INTEGER NOT NULL, payload TEXT NOT NULL, bulk BLOB NOT NULL,"
                      " UNIQUE(run, key));"
                      "PRAGMA user_version={};"
                      "COMMIT;",
                      kApplicationId, kSchemaVersion));
}

void Store::CheckVersion() const {
  Statement id(database_, path_, "PRAGMA application_id");
  id.Step();
  Statement version(database_, path_, "PRAGMA user_version");
  version.Step();
  if (id.Integer(0) != kApplicationId) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} is not a Kvant store", path_.string()),
                "remove it or choose another --out folder");
  }
  if (version.Integer(0) != kSchemaVersion) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} has schema version {}; this program reads {}", path_.string(),
                            version.Integer(0), kSchemaVersion),
                "use the Kvant version that wrote it");
  }
}

int64_t Store::StartRun(std::string_view digest, const Json& config, const Json& environment) {
  Statement insert(database_, path_,
                   "INSERT INTO run(digest, config, environment) VALUES(?, ?, ?)"
                   " ON CONFLICT(digest) DO NOTHING");
  insert.Bind(1, digest).Bind(2, config.dump()).Bind(3, environment.dump()).Step();
  Statement select(database_, path_, "SELECT id FROM run WHERE digest = ?");
  KVANT_CHECK(select.Bind(1, digest).Step());
  return select.Integer(0);
}

void Store::FinishRun(int64_t run) {
  Statement(database_, path_, "UPDATE run SET complete = 1 WHERE id = ?").Bind(1, run).Step();
}

bool Store::Has(int64_t run, std::string_view key) const {
  Statement select(database_, path_, "SELECT 1 FROM sample WHERE run = ? AND key = ?");
  return select.Bind(1, run).Bind(2, key).Step();
}

void Store::Put(int64_t run, const StoredSample& sample) {
  Statement insert(database_, path_,
                   "INSERT INTO sample(run, key, kind, grp, bucket, payload, bulk)"
                   " VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(run, key) DO NOTHING");
  insert.Bind(1, run)
      .Bind(2, sample.key)
      .Bind(3, sample.kind)
      .Bind(4, sample.group)
      .Bind(5, static_cast<int64_t>(sample.bucket))
      .Bind(6, sample.payload.dump())
      .Bind(7, sample.values)
      .Step();
}

StoredRun Store::Run(int64_t run) const {
  Statement select(database_, path_,
                   fmt::format("SELECT {} FROM run WHERE id = ?", kRunColumns).c_str());
  if (!select.Bind(1, run).Step()) {
    throw Error(ErrorCode::kNotFound, fmt::format("{} has no run {}", path_.string(), run));
  }
  return ReadRun(&select, path_);
}

std::vector<StoredRun> Store::Runs() const {
  Statement select(database_, path_,
                   fmt::format("SELECT {} FROM run ORDER BY id", kRunColumns).c_str());
  std::vector<StoredRun> runs;
  while (select.Step()) runs.push_back(ReadRun(&select, path_));
  return runs;
}

std::vector<StoredSample> Store::Samples(int64_t run, std::string_view kind) const {
  Statement select(database_, path_,
                   "SELECT key, kind, grp, bucket, payload, bulk FROM sample"
                   " WHERE run = ?1 AND (?2 = '' OR kind = ?2) ORDER BY id");
  select.Bind(1, run).Bind(2, kind);
  std::vector<StoredSample> samples;
  while (select.Step()) {
    StoredSample sample;
    sample.key = select.Text(0);
    sample.kind = select.Text(1);
    sample.group = select.Text(2);
    sample.bucket = static_cast<uint64_t>(select.Integer(3));
    sample.payload = ParseJson(select.Text(4), path_.string());
    sample.values = select.Blob(5);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace kvant
