// SPDX-License-Identifier: Apache-2.0
// inlined_price SECONDS: a thread of std::thread whose work is inlined into libstdc++'s start function.
#include <chrono>
#include <cstdlib>
#include <thread>

static volatile double result;

static inline double price(double x, int n)
{
    double sum = 0;

    for (int i = 1; i < n; i++)
        sum += x / i; // LINE
    return sum;
}

int main(int argc, char **argv)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(atof(argv[1]));

    std::thread([end] {
        while (std::chrono::steady_clock::now() < end)
            result = price(result + 1, 10000);
    }).join();
}
