#include "kvant/store/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kvant/core/error.h"

namespace kvant {
namespace {

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        std::filesystem::path(testing::TempDir()) / ("store." + std::to_string(::getpid()) + ".db");
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static StoredSample Sample(const std::string& key) {
    StoredSample sample;
    sample.key = key;
    sample.kind = key.substr(0, key.find('/'));
    sample.group = "int8";
    sample.bucket = 2048;
    sample.payload = {{"kld", 0.25}};
    sample.values = {1, 0, 255};
    return sample;
  }

  std::filesystem::path path_;
};

TEST_F(StoreTest, SamplesComeBackAsTheyWere) {
  {
    Store store(path_);
    const int64_t run = store.StartRun("abc", {{"model", "m"}}, {{"cpu", "x"}});
    store.Put(run, Sample("divergence/1"));
    StoredSample without_values = Sample("needle/1");
    without_values.values.clear();
    store.Put(run, without_values);
    EXPECT_TRUE(store.Has(run, "needle/1"));
    EXPECT_FALSE(store.Has(run, "needle/2"));
  }
  const Store store = Store::OpenForReading(path_);
  ASSERT_EQ(store.Runs().size(), 1U);
  EXPECT_EQ(store.Runs()[0].config["model"], "m");
  EXPECT_FALSE(store.Runs()[0].complete);
  const auto samples = store.Samples(store.Runs()[0].id, "divergence");
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].payload["kld"], 0.25);
  EXPECT_EQ(samples[0].values, (std::vector<uint8_t>{1, 0, 255}));
  EXPECT_EQ(samples[0].bucket, 2048U);
  EXPECT_EQ(store.Samples(store.Runs()[0].id, "").size(), 2U);
}

TEST_F(StoreTest, TheSameConfigurationResumesItsRun) {
  int64_t first = 0;
  {
    Store store(path_);
    first = store.StartRun("abc", {}, {});
    store.Put(first, Sample("a/1"));
    store.FinishRun(first);
  }
  Store store(path_);
  EXPECT_EQ(store.StartRun("abc", {}, {}), first);
  EXPECT_NE(store.StartRun("other", {}, {}), first);
  EXPECT_TRUE(store.Has(first, "a/1"));
  EXPECT_TRUE(store.Run(first).complete);
  // A sample is made once: a second one under its key changes nothing.
  StoredSample again = Sample("a/1");
  again.bucket = 1;
  store.Put(first, again);
  EXPECT_EQ(store.Samples(first, "")[0].bucket, 2048U);
}

TEST_F(StoreTest, ASecondWriterIsRefused) {
  Store store(path_);
  store.StartRun("abc", {}, {});
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      Store second(path_);
      ::_exit(0);
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::kIo ? 3 : 1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(StoreTest, AKilledWriterLosesNothingThatWasPut) {
  const pid_t child = ::fork();
  if (child == 0) {
    Store store(path_);
    const int64_t run = store.StartRun("abc", {}, {});
    for (int i = 0; i < 20; ++i) store.Put(run, Sample("a/" + std::to_string(i)));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Store store(path_);
  const int64_t run = store.StartRun("abc", {}, {});
  EXPECT_EQ(store.Samples(run, "").size(), 20U);
}

TEST_F(StoreTest, AForeignFileIsRefusedAndLeftAlone) {
  const std::string content(5000, 'x');
  { std::ofstream(path_) << content; }
  EXPECT_THROW(Store{path_}, Error);
  EXPECT_EQ(std::filesystem::file_size(path_), content.size());
  EXPECT_THROW(Store::OpenForReading(path_.string() + ".none"), Error);
  EXPECT_THROW(Store("/no/such/folder/x.db"), Error);
}

}  // namespace
}  // namespace kvant
