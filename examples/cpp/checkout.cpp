// SPDX-License-Identifier: Apache-2.0
// A service that prices orders. Nothing is compiled into it:
//
//     g++ -O2 -g checkout.cpp -o checkout && wick run -t cpu,heap,lock --export http://localhost:4317 -- ./checkout
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace shop {
__attribute__((noinline)) long price_item(int n)
{
    long total = 0;
    for (int i = 0; i < 40 * n; i++)
        total = (total * 31 + i) % 1000003;
    return total;
}

__attribute__((noinline)) std::string encode_order(const std::vector<long> &items)
{
    std::string out;
    for (long x : items)
        out += std::to_string(x) + ",";
    return out;
}

__attribute__((noinline)) std::string handle_order(int n)
{
    std::vector<long> items(20);
    for (long &x : items)
        x = price_item(2000 + n % 7);
    return encode_order(items);
}
} // namespace shop

int main()
{
    volatile size_t bytes = 0;
    for (int n = 0;; n++) {
        bytes += shop::handle_order(n).size();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}
