/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of `wick doctor`: each examines one thing and reports, in one line, its state and how to fix it. */
#ifndef HOST_DOCTOR_H
#define HOST_DOCTOR_H

enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD }; /* note: works, with restrictions; bad: does not work */

struct doctor_result {
    enum doctor_verdict verdict;
    char state[400], fix[400]; /* fix is empty if there is nothing to do */
};

struct doctor_check {
    const char *name, *group;
    void (*run)(struct doctor_result *r);
};

extern const struct doctor_check doctor_system[]; /* what the kernel allows an agent to see; ends with name == NULL */
extern const struct doctor_check doctor_agent[];  /* what it then samples */
extern const struct doctor_check doctor_serve[];  /* what `wick serve` needs */

void doctor_say(struct doctor_result *r, enum doctor_verdict v, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
