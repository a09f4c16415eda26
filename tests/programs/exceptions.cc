// SPDX-License-Identifier: Apache-2.0
// exceptions SECONDS: throws through frames with destructors, virtual calls, std::sort and std::map until its CPU is used.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Noisy {
    std::string s;
    ~Noisy() { s += "x"; }
};
struct Base {
    virtual ~Base() = default;
    virtual int run(int d) = 0;
};
struct Deep : Base {
    int run(int d) override
    {
        Noisy n{std::to_string(d)};
        std::vector<int> v(50);

        for (int i = 0; i < 50; i++)
            v[i] = (i * 7919 + d) % 101;
        std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; });
        if (d == 0)
            throw std::runtime_error(n.s + std::to_string(v[3]));
        return run(d - 1) + (int) n.s.size();
    }
};

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    std::map<std::string, int> seen;
    std::unique_ptr<Base> b = std::make_unique<Deep>();

    while (clock() / (double) CLOCKS_PER_SEC < seconds) {
        try {
            b->run(12);
        } catch (const std::exception &e) {
            seen[e.what()]++;
        }
    }
    printf("%zu\n", seen.size());
    return 0;
}
