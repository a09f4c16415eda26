/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of `wick doctor`: each looks at one thing and says, in a line, how it is and what to do about it. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD }; /* note: works, with a loss; bad: does not */

struct doctor_result {
    enum doctor_verdict verdict;
    char state[400], fix[400]; /* fix is empty when there is nothing to do */
};

struct doctor_check {
    const char *name, *group;
    void (*run)(struct doctor_result *r);
};

extern const struct doctor_check doctor_system[]; /* what the kernel lets an agent see; ends with name == NULL */
extern const struct doctor_check doctor_serve[];  /* what `wick serve` needs */

void doctor_say(struct doctor_result *r, enum doctor_verdict v, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
