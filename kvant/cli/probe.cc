// kvant probe: what this machine's kernels do.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "kvant/cli/command.h"
#include "kvant/core/json.h"
#include "kvant/core/thread_pool.h"
#include "kvant/kernel/isa.h"

namespace kvant {

namespace {

// Read bandwidth over a buffer far larger than any cache, in bytes per second: the best of a few
// passes.
double ReadBandwidth(size_t num_threads) {
  constexpr size_t kWords = (256ULL << 20) / sizeof(uint64_t);
  std::vector<uint64_t> buffer(kWords, 1);
  ThreadPool pool(num_threads);
  constexpr size_t kPieces = 64;
  double best = 0;
  volatile uint64_t sink = 0;
  for (int pass = 0; pass < 4; ++pass) {
    std::vector<uint64_t> sums(kPieces);
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(kPieces, [&](size_t piece, size_t) {
      const uint64_t* words = buffer.data() + piece * (kWords / kPieces);
      uint64_t a = 0;
      uint64_t b = 0;
      uint64_t c = 0;
      uint64_t d = 0;
      for (size_t i = 0; i < kWords / kPieces; i += 4) {
        a += words[i];
        b += words[i + 1];
        c += words[i + 2];
        d += words[i + 3];
      }
      sums[piece] = a + b + c + d;
    });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const uint64_t sum : sums) sink = sink + sum;
    best = std::max(best, static_cast<double>(kWords * sizeof(uint64_t)) / seconds);
  }
  return best;
}

int Probe(bool json) {
  const std::vector<Isa> available = AvailableIsas();
  const Isa active = ActiveIsa();
  const size_t cpus = std::max(1U, std::thread::hardware_concurrency());
  const double one = ReadBandwidth(1);
  const double all = ReadBandwidth(cpus);
  Json paths = Json::array();
  for (const Isa isa : AllIsas()) {
    const bool here = std::find(available.begin(), available.end(), isa) != available.end();
    paths.push_back({{"name", IsaName(isa)}, {"available", here}, {"active", isa == active}});
  }
  if (json) {
    const Json document = {{"isa_paths", paths},
                           {"active", IsaName(active)},
                           {"forced", IsaIsForced()},
                           {"cpus", cpus},
                           {"read_bandwidth_bytes_per_s", {{"one_thread", one}, {"all", all}}}};
    std::printf("%s\n", document.dump(1).c_str());
    return 0;
  }
  std::printf("CPUs               %zu\n", cpus);
  std::printf("Kernel path        %s%s\n", std::string(IsaName(active)).c_str(),
              IsaIsForced() ? " (forced by KVANT_ISA)" : "");
  for (const Json& path : paths) {
    std::printf("  %-16s %s\n", path["name"].get<std::string>().c_str(),
                path["available"].get<bool>() ? "available" : "not on this machine: not tested");
  }
  std::printf("Read bandwidth     %.1f GB/s with 1 thread, %.1f GB/s with %zu\n", one / 1e9,
              all / 1e9, cpus);
  std::printf("Attention, prefill float32 arithmetic on packed codes and weights\n");
  std::printf(
      "Decoding           packed weights times activations in %s\n",
      active == Isa::kPortable ? "float32" : "16-bit integers, float32 between groups of 32");
  return 0;
}

}  // namespace

void AddProbeCommand(CLI::App* app, CommandBody* body) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app->add_subcommand(
      "probe", "Show this machine's instruction sets, bandwidth and which kernels are in use");
  command->add_flag("--json", *json, "JSON on stdout");
  command->callback([json, body] { *body = [json] { return Probe(*json); }; });
}

}  // namespace kvant
