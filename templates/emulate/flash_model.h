/*
 * How long a core waits for flash: a model of a flash interface with its caches, driven by a trace of what runs.
 *
 * A read of a flash word takes one cycle and the wait states; there is one port, and a read that has begun is not
 * broken off. Code is read in lines of one or several words: the first word comes after the wait states, the others one
 * a cycle, faster than they run. Constants are read in words, or in lines where one cache holds both. A cache holds
 * lines or words, the least recently used of a set gives way. With prefetch, the interface reads the line behind the one
 * that runs as soon as the port is free. A load that misses waits for the port and the read. Only waits are counted: the
 * cycles that instructions take without wait states come in with the trace and move the clock.
 */
#ifndef FLASH_MODEL_H
#define FLASH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct cache {
    unsigned sets, ways; /* no cache: 0 ways */
    uint64_t *words;     /* of each set what it holds, words or lines by their numbers, the last used one first */
};

struct flash {
    uint64_t begin, end; /* addresses */
    unsigned wait_states, word_bytes, line_bytes, jump;
    bool has_prefetch, is_unified; /* the cache of code holds constants, too */
    struct cache code, data;
    uint64_t now, free; /* cycles: the clock, when the port can begin a read */
    uint64_t running, prefetched, ready; /* lines of code, and when the second is there */
    uint64_t next;                       /* the address behind the last instruction */
    uint64_t loaded;                     /* the word of the last load */
};

enum { NO_WORD = -1 };

static inline struct cache new_cache(unsigned bytes, unsigned unit_bytes, unsigned ways)
{
    const unsigned words = bytes / unit_bytes;
    struct cache cache = { ways > 0 && words >= ways ? words / ways : 0, ways, NULL };

    cache.ways = cache.sets > 0 ? ways : 0;
    if (cache.ways > 0) {
        cache.words = malloc((size_t)words * sizeof *cache.words);
        for (unsigned i = 0; cache.words != NULL && i < words; i++) {
            cache.words[i] = (uint64_t)NO_WORD;
        }
    }
    return cache;
}

static inline struct flash new_flash(uint64_t begin, uint64_t end, unsigned wait_states, unsigned word_bytes,
                                     unsigned line_bytes, bool has_prefetch, bool is_unified, struct cache code,
                                     struct cache data, unsigned jump)
{
    const uint64_t none = (uint64_t)NO_WORD;
    const struct flash flash = { begin, end, wait_states, word_bytes, line_bytes, jump, has_prefetch, is_unified, code,
                                 data, 0, 0, none, none, 0, none, none };

    return flash;
}

/* Whether the cache holds the word. */
static inline bool holds(const struct cache *cache, uint64_t word)
{
    const uint64_t *set = cache->words == NULL ? NULL : cache->words + word % cache->sets * cache->ways;

    for (unsigned way = 0; set != NULL && way < cache->ways; way++) {
        if (set[way] == word) {
            return true;
        }
    }
    return false;
}

/* Makes the word the last used one of its set. */
static inline void use(struct cache *cache, uint64_t word)
{
    uint64_t *set = cache->words == NULL ? NULL : cache->words + word % cache->sets * cache->ways;
    uint64_t moved = word;

    for (unsigned way = 0; set != NULL && way < cache->ways; way++) {
        const uint64_t held = set[way];
        set[way] = moved;
        if (held == word) {
            return;
        }
        moved = held;
    }
}

/* Reads words, as soon as the port is free: when the first is there. */
static inline uint64_t read_words(struct flash *flash, unsigned words)
{
    const uint64_t start = flash->free > flash->now ? flash->free : flash->now;

    flash->free = start + flash->wait_states + words;
    return start + flash->wait_states;
}

/* The waits for a line of code. */
static inline uint64_t fetch_line(struct flash *flash, uint64_t line)
{
    const unsigned words = flash->line_bytes / flash->word_bytes;
    uint64_t there = flash->now;

    if (line == flash->running) {
        return 0;
    }
    if (line == flash->prefetched) {
        there = flash->ready > there ? flash->ready : there;
    } else if (!holds(&flash->code, line)) {
        there = read_words(flash, words);
    }
    use(&flash->code, line);
    flash->running = line;
    const uint64_t waits = there - flash->now;
    flash->now = there;
    if (flash->has_prefetch && flash->prefetched != line + 1 && !holds(&flash->code, line + 1)) {
        flash->prefetched = line + 1;
        flash->ready = read_words(flash, words);
    }
    return waits;
}

/* The waits of an instruction of some bytes that takes some cycles without wait states. */
static inline uint64_t fetch(struct flash *flash, uint64_t address, unsigned bytes, unsigned cycles)
{
    const bool has_jumped = flash->next != address;
    uint64_t waits = 0;

    if (address >= flash->begin && address < flash->end) {
        const uint64_t first = address / flash->line_bytes, last = (address + bytes - 1) / flash->line_bytes;
        for (uint64_t line = first; line <= last; line++) {
            waits += fetch_line(flash, line);
        }
    }
    flash->now += cycles + (has_jumped ? flash->jump : 0);
    flash->next = address + bytes;
    return waits;
}

/* The waits of a load. */
static inline uint64_t load(struct flash *flash, uint64_t address)
{
    struct cache *cache = flash->is_unified ? &flash->code : &flash->data;
    const unsigned bytes = flash->is_unified ? flash->line_bytes : flash->word_bytes;
    const uint64_t word = address / bytes;
    uint64_t waits = 0;

    if (address < flash->begin || address >= flash->end) {
        return 0;
    }
    if (cache->words == NULL ? word != flash->loaded : !holds(cache, word)) {
        waits = read_words(flash, bytes / flash->word_bytes) - flash->now;
        flash->now += waits;
    }
    use(cache, word);
    flash->loaded = word;
    return waits;
}

#endif
