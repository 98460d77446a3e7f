// Frequency oracles as one would write them by hand: what a simulation in C++ takes.
//
// Not part of the package: `benchmarks/_native.py` compiles this file where there is a compiler.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

constexpr int kLanes = 1024;       // users this far apart share blocks of threefry
constexpr int kTile = 2 * kLanes;  // users of a tile
constexpr int kTables = 4;         // histograms of a thread, whose increments do not wait

struct Key {
  uint32_t first, second;
};

inline uint32_t rotated(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

// One block of threefry2x32 with 20 rounds.
inline void threefry(Key key, uint64_t counter, uint32_t& x0, uint32_t& x1) {
  const uint32_t schedule[3] = {key.first, key.second, key.first ^ key.second ^ 0x1BD11BDAu};
  x0 = static_cast<uint32_t>(counter >> 32) + schedule[0];
  x1 = static_cast<uint32_t>(counter) + schedule[1];
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
#pragma GCC unroll 5
  for (int group = 1; group <= 5; ++group) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x0 += x1;
      x1 = rotated(x1, rotations[(group + 1) % 2][i]) ^ x0;
    }
    x0 += schedule[group % 3];
    x1 += schedule[(group + 1) % 3] + group;
  }
}

// One word for each user of a tile: the first `kLanes` take the first halves of blocks.
inline void words_of(Key key, uint64_t block, uint32_t* words) {
  for (int i = 0; i < kLanes; ++i) threefry(key, block + i, words[i], words[i + kLanes]);
}

}  // namespace

extern "C" {

// k-ary randomized response: the counts of the reports of n users, whose values are below k >= 2.
//
// A user tells the truth when its word is below the threshold, else one of the other values. The
// words are those of jaxdp, and so are the counts.
void krr_counts(const int32_t* values, uint64_t n, uint32_t k, uint32_t threshold, uint32_t first,
                uint32_t second, uint64_t* counts) {
  const Key key{first, second};
  const uint32_t others = k - 1, inverse = 0xFFFFFFFFu / others;
  const int64_t tiles = static_cast<int64_t>((n + kTile - 1) / kTile);
  const size_t stride = k + 16;
  std::fill(counts, counts + k, 0);
#pragma omp parallel
  {
    std::vector<uint64_t> total(k, 0);
    std::vector<uint32_t> tables(kTables * stride, 0);
    uint64_t users = 0;
    auto flush = [&] {
      for (int j = 0; j < kTables; ++j)
        for (uint32_t v = 0; v < k; ++v) total[v] += tables[j * stride + v];
      std::fill(tables.begin(), tables.end(), 0u);
      users = 0;
    };
#pragma omp for schedule(static)
    for (int64_t tile = 0; tile < tiles; ++tile) {
      alignas(64) uint32_t words[kTile];
      alignas(64) uint32_t reports[kTile];
      const uint64_t begin = static_cast<uint64_t>(tile) * kTile;
      const int size = static_cast<int>(std::min<uint64_t>(kTile, n - begin));
      words_of(key, static_cast<uint64_t>(tile) * kLanes, words);
      for (int i = 0; i < size; ++i) {
        const uint32_t value = static_cast<uint32_t>(values[begin + i]);
        const uint32_t x = words[i] - threshold;
        // x mod others: the quotient is at most 2 too small, and a minimum undoes a wrap.
        uint32_t rest = x - static_cast<uint32_t>((uint64_t{x} * inverse) >> 32) * others;
        rest = std::min(rest, rest - others);
        rest = std::min(rest, rest - others);
        uint32_t other = value + 1 + rest;
        other = std::min(other, other - k);
        reports[i] = words[i] < threshold ? value : other;
      }
      int i = 0;
      for (; i + kTables <= size; i += kTables)
        for (int j = 0; j < kTables; ++j) ++tables[j * stride + reports[i + j]];
      for (; i < size; ++i) ++tables[reports[i]];
      users += kTile;
      if (users >= (uint64_t{1} << 31)) flush();
    }
    flush();
#pragma omp critical
    for (uint32_t v = 0; v < k; ++v) counts[v] += total[v];
  }
}

// Optimised local hashing: how many of n users' reports support each of k values.
//
// A user hashes by (a v + b) >> (32 - bits), of two words, and reports the bucket by randomized
// response, of a third; whoever gets the report tries all values.
void local_hashing_support(const int32_t* values, uint64_t n, uint32_t k, uint32_t bits,
                           uint32_t threshold, uint32_t first, uint32_t second, uint64_t* support) {
  const Key key{first, second};
  const uint32_t buckets = 1u << bits, shift = 32 - bits;
  const int64_t tiles = static_cast<int64_t>((n + kTile - 1) / kTile);
  std::fill(support, support + k, 0);
#pragma omp parallel
  {
    std::vector<uint64_t> total(k, 0);
    std::vector<uint32_t> counts(k, 0);
#pragma omp for schedule(static)
    for (int64_t tile = 0; tile < tiles; ++tile) {
      alignas(64) uint32_t words[3][kTile];
      const uint64_t begin = static_cast<uint64_t>(tile) * kTile;
      const int size = static_cast<int>(std::min<uint64_t>(kTile, n - begin));
      for (int j = 0; j < 3; ++j) {
        words_of(key, (static_cast<uint64_t>(tile) * 3 + j) * kLanes, words[j]);
      }
      for (int i = 0; i < size; ++i) {
        const uint32_t a = words[0][i] | 1, b = words[1][i], word = words[2][i];
        uint32_t report = (a * static_cast<uint32_t>(values[begin + i]) + b) >> shift;
        if (word >= threshold) report = (report + 1 + (word - threshold) % (buckets - 1)) % buckets;
        const uint32_t least = report << shift;
        // In the bucket are the hashes from `least` on, 2**shift of them.
        for (uint32_t v = 0; v < k; ++v) counts[v] += (a * v + b - least) >> shift == 0;
      }
      for (uint32_t v = 0; v < k; ++v) total[v] += counts[v];
      std::fill(counts.begin(), counts.end(), 0u);
    }
#pragma omp critical
    for (uint32_t v = 0; v < k; ++v) support[v] += total[v];
  }
}

}  // extern "C"
