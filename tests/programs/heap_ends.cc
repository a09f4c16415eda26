// SPDX-License-Identifier: Apache-2.0
// heap_ends HOW: holds 40 MB in a global vector at the end, whose destructor frees them; 120 MB more for a while before.
// HOW: return, exit, or handler: by exit() in a signal handler.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

static std::vector<std::vector<char>> global;

__attribute__((noinline)) static void held()
{
    for (int i = 0; i < 400; i++)
        global.emplace_back(100000);
}

__attribute__((noinline)) static void passing()
{
    std::vector<std::vector<char>> local;

    for (int i = 0; i < 1200; i++)
        local.emplace_back(100000);
    asm volatile("" : : "g"(&local) : "memory");
}

int main(int argc, char **argv)
{
    held();
    passing();
    if (!std::strcmp(argv[1], "exit"))
        std::exit(0);
    if (!std::strcmp(argv[1], "handler")) {
        std::signal(SIGUSR1, [](int) { std::exit(0); });
        std::raise(SIGUSR1);
    }
    return 0;
}
