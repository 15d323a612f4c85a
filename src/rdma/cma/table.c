/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/cma/table.h"

#include "base/clock.h"
#include "base/num.h"

#include <time.h>

#define WORD_STATE UINT64_C(3)
#define WORD_MARKS UINT64_C(0xff00)
#define WORD_GENERATION_SHIFT 32

#define WAIT_FIRST_NS (20 * 1000)
#define WAIT_LONGEST_NS (1 * NS_PER_MS)
/* Long before this a living holder has finished its piece; only then is it worth a look at /proc.
 */
#define WAIT_BEFORE_JUDGING_NS (2 * NS_PER_MS)

static_assert(SLOT_HOLDERS == 8, "as many as WORD_MARKS has bits");

static uint64_t mark_bit(unsigned entry)
{
    return UINT64_C(1) << (8 + entry);
}

static uint64_t word_of(uint32_t generation, enum slot_state state, uint64_t marks)
{
    return (uint64_t)generation << WORD_GENERATION_SHIFT | marks | (uint64_t)state;
}

/* The entry is ours from here on if it was `gone`'s until now; its mark is cleared. */
static bool take_over(struct slot *slot, unsigned entry, process_id gone, process_id self)
{
    if (!atomic_compare_exchange_strong(&slot->holders[entry], &gone, self))
        return false;
    atomic_fetch_and(&slot->word, ~mark_bit(entry));
    return true;
}

static void give_back(struct slot *slot, unsigned entry, process_id self)
{
    atomic_compare_exchange_strong(&slot->holders[entry], &self, 0);
}

static bool take_entry(struct slot *slot, process_id self, unsigned *ret_entry)
{
    for (unsigned i = 0; i < SLOT_HOLDERS; i++) {
        process_id nobody = 0;
        if (atomic_compare_exchange_strong(&slot->holders[i], &nobody, self)) {
            *ret_entry = i;
            return true;
        }
    }
    for (unsigned i = 0; i < SLOT_HOLDERS; i++) {
        process_id holder = atomic_load(&slot->holders[i]);
        if (process_is_gone(holder) && take_over(slot, i, holder, self)) {
            *ret_entry = i;
            return true;
        }
    }
    return false;
}

/* Step 3 of the head of table.h. Marks may have come and gone since the word was seen. */
static bool set_mark(struct slot *slot, uint64_t seen, unsigned entry)
{
    uint64_t word = atomic_load(&slot->word);
    do {
        if ((word ^ seen) & ~WORD_MARKS || word & mark_bit(entry))
            return false;
    } while (!atomic_compare_exchange_weak(&slot->word, &word, word | mark_bit(entry)));
    return true;
}

int slot_mark(struct slot *slot, process_id self, uint64_t key, struct slot_mark *ret_mark)
{
    struct slot_mark mark = {.slot = slot, .self = self};
    uint64_t word = atomic_load(&slot->word);
    if ((word & WORD_STATE) != SLOT_OPEN || atomic_load(&slot->key) != key)
        return S3R_E_RDMA_PEER;
    if (!take_entry(slot, self, &mark.entry))
        return S3R_E_BUSY;
    if (!set_mark(slot, word, mark.entry)) {
        give_back(slot, mark.entry, self);
        return S3R_E_RDMA_PEER;
    }
    mark.addr = atomic_load(&slot->addr);
    mark.len = atomic_load(&slot->len);
    mark.directions = atomic_load(&slot->directions);
    *ret_mark = mark;
    return 0;
}

void slot_unmark(const struct slot_mark *mark)
{
    atomic_fetch_and(&mark->slot->word, ~mark_bit(mark->entry));
    give_back(mark->slot, mark->entry, mark->self);
}

void slot_open(struct slot *slot, uint32_t generation, uint64_t key, uint64_t addr, uint64_t len)
{
    atomic_store(&slot->key, key);
    atomic_store(&slot->addr, addr);
    atomic_store(&slot->len, len);
    atomic_store(&slot->directions, SLOT_READS | SLOT_WRITES);
    atomic_store(&slot->word, word_of(generation, SLOT_OPEN, 0));
}

static void set_withdrawn(struct slot *slot, uint32_t generation)
{
    uint64_t word = atomic_load(&slot->word);
    while (!atomic_compare_exchange_weak(&slot->word, &word,
                                         word_of(generation, SLOT_WITHDRAWN, word & WORD_MARKS)))
        ;
}

/* A mark without an identity beside it is nobody's: no server sets one. */
static void clear_marks_of_the_dead(struct slot *slot, process_id self)
{
    for (unsigned i = 0; i < SLOT_HOLDERS; i++) {
        if (!(atomic_load(&slot->word) & mark_bit(i)))
            continue;
        process_id holder = atomic_load(&slot->holders[i]);
        if (process_is_gone(holder) && take_over(slot, i, holder, self))
            give_back(slot, i, self);
    }
}

int slot_withdraw(struct slot *slot, uint32_t generation, process_id self, int64_t wait_ns)
{
    int64_t begin = clock_mono_ns(), pause = WAIT_FIRST_NS;
    set_withdrawn(slot, generation);
    while (atomic_load(&slot->word) & WORD_MARKS) {
        int64_t waited = clock_mono_ns() - begin;
        if (waited >= WAIT_BEFORE_JUDGING_NS)
            clear_marks_of_the_dead(slot, self);
        if (waited >= wait_ns)
            return atomic_load(&slot->word) & WORD_MARKS ? S3R_E_BUSY : 0;
        struct timespec ts = clock_timespec(pause);
        nanosleep(&ts, NULL);
        pause = pause * 2 < WAIT_LONGEST_NS ? pause * 2 : WAIT_LONGEST_NS;
    }
    return 0;
}

void slot_free(struct slot *slot, uint32_t generation)
{
    atomic_store(&slot->key, 0);
    atomic_store(&slot->word, word_of(generation, SLOT_FREE, 0));
}
