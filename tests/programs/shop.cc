// SPDX-License-Identifier: Apache-2.0
// A small shop with calls that get inlined, for the tests of symbols and source listings.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>
#include <cstdio>

namespace shop {
namespace {
inline __attribute__((always_inline)) double mix(double a, double b)
{
    return std::sqrt(a * a + b * b) + a;
}
}  // namespace

template <typename T> struct Cart {
    std::vector<T> items;
    void add(T v) { items.push_back(v); }
    inline __attribute__((always_inline)) double total() const
    {
        double s = 0;
        for (const T &v : items)
            s = mix(s, static_cast<double>(v));
        return s;
    }
    bool operator()(T a, T b) const { return a < b; }
};

__attribute__((noinline)) double checkout(Cart<int> &c)
{
    std::sort(c.items.begin(), c.items.end(), [](int a, int b) { return a > b; });
    return c.total();
}

class Store {
  public:
    virtual ~Store() {}
    virtual double run(int n);
    std::map<std::string, int> stock;
};

double Store::run(int n)
{
    Cart<int> c;
    double t = 0;
    for (int i = 0; i < n; i++) {
        c.add(i * 7919 % 1013);
        stock["k" + std::to_string(i % 50)] += i;
        if (i % 100 == 0)
            t += checkout(c);
    }
    return t;
}
}  // namespace shop

extern "C" int c_entry(int n)
{
    shop::Store s;
    return (int) s.run(n);
}

int main(int argc, char **argv)
{
    std::printf("%d\n", c_entry(argc > 1 ? 20000 : 3000));
    return 0;
}
