/* SPDX-License-Identifier: Apache-2.0 */
/* Reads "MINOR FIRST TABLE INSTR..." lines (table in hexadecimal, '-' when empty) and prints the line of each instruction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lang/python/python_lines.h"

static char line[8 << 20], table[2 << 20];

static unsigned digit(char c)
{
    return (unsigned) (c <= '9' ? c - '0' : c - 'a' + 10);
}

int main(void)
{
    while (fgets(line, sizeof line, stdin)) {
        char *save, *word = strtok_r(line, " \n", &save);
        unsigned minor = (unsigned) strtoul(word ? word : "0", NULL, 10);
        int first = (int) strtol(strtok_r(NULL, " \n", &save), NULL, 10);
        const char *hex = strtok_r(NULL, " \n", &save);
        uint32_t n = 0;

        for (; hex[0] != '-' && hex[0] && hex[1] && n < sizeof table; hex += 2)
            table[n++] = (char) (digit(hex[0]) << 4 | digit(hex[1]));
        while ((word = strtok_r(NULL, " \n", &save)))
            printf("%lld ", (long long) python_line(minor, (struct str){table, n}, first, strtoll(word, NULL, 10)));
        putchar('\n');
    }
    return 0;
}
