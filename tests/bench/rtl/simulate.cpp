/*
 * Runs image.elf on the RTL of a core with a memory that answers in the next cycle, on separate ports for instructions
 * and data. A store to HOST + 4 passes the argument of a semihosting call, one to HOST its operation, which is then
 * executed; a load from HOST reads its result. A store to HOST + 8 writes the cycle and what is
 * stored to counts.txt.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <elf.h>

#include "Vcore.h"
#include "verilated.h"

namespace {

enum : uint32_t { MEMORY = 0x80000000, BYTES = 32 << 20, HOST = 0x10000000 };
enum : uint32_t { SYS_OPEN = 1, SYS_WRITE0 = 4, SYS_WRITE = 5, SYS_READ = 6, SYS_EXIT_EXTENDED = 0x20 };

std::vector<uint8_t> memory(BYTES);
std::vector<FILE *> files;
FILE *counts;
uint32_t argument, result;
uint64_t cycle;
int status = -1;

uint8_t *at(uint32_t address)
{
    if (address - MEMORY >= BYTES) {
        fprintf(stderr, "no memory at %08x\n", (unsigned)address);
        status = 2;
        return memory.data();
    }
    return &memory[address - MEMORY];
}

uint32_t word(uint32_t address)
{
    uint32_t value;

    memcpy(&value, at(address & ~3u), sizeof value);
    return value;
}

void call(uint32_t operation)
{
    const char *const text = (const char *)at(argument);
    const uint32_t first = operation == SYS_WRITE0 ? 0 : word(argument);

    if (operation == SYS_OPEN) {
        files.push_back(fopen((const char *)at(first), word(argument + 4) == 1 ? "rb" : "wb"));
        result = files.back() == nullptr ? ~0u : (uint32_t)files.size() - 1;
    } else if (operation == SYS_READ) { /* what is missing at the end */
        result = word(argument + 8) - (uint32_t)fread(at(word(argument + 4)), 1, word(argument + 8), files.at(first));
    } else if (operation == SYS_WRITE) {
        result = word(argument + 8) - (uint32_t)fwrite(at(word(argument + 4)), 1, word(argument + 8), files.at(first));
    } else if (operation == SYS_WRITE0) {
        fputs(text, stderr);
    } else if (operation == SYS_EXIT_EXTENDED) {
        status = (int)(word(argument + 4) & 0xFF);
    }
}

void store(uint32_t address, uint32_t value, unsigned enabled)
{
    if (address == HOST) {
        call(value);
    } else if (address == HOST + 4) {
        argument = value;
    } else if (address == HOST + 8) {
        fprintf(counts, "%llu %u\n", (unsigned long long)cycle, (unsigned)value);
    } else {
        for (unsigned i = 0; i < 4; i++) {
            if (enabled >> i & 1) {
                at(address)[i] = (uint8_t)(value >> 8 * i);
            }
        }
    }
}

/* Puts what the image holds where it is loaded from. */
bool load(const char *name)
{
    std::vector<uint8_t> bytes(BYTES);
    FILE *const file = fopen(name, "rb");
    const Elf32_Ehdr *const header = (const Elf32_Ehdr *)bytes.data();

    if (file == nullptr || fread(bytes.data(), 1, bytes.size(), file) < sizeof *header) {
        return false;
    }
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf32_Phdr *const part = (const Elf32_Phdr *)&bytes[header->e_phoff] + i;
        if (part->p_type == PT_LOAD && part->p_filesz > 0) {
            memcpy(at(part->p_paddr), &bytes[part->p_offset], part->p_filesz);
        }
    }
    return true;
}

} // namespace

int main()
{
    Vcore core;

    counts = fopen("counts.txt", "w");
    if (counts == nullptr || !load("image.elf")) {
        return 2;
    }
    for (; status < 0; cycle++) {
        core.rst_n = cycle >= 4;
        core.clk = 0;
        core.eval();
        const bool fetches = core.rst_n && core.instr_req, accesses = core.rst_n && core.data_req;
        const uint32_t fetched = core.instr_addr, accessed = core.data_addr & ~3u;
        if (accesses && core.data_we) {
            store(accessed, core.data_wdata, core.data_be);
        }
        core.clk = 1;
        core.eval();
        core.instr_rvalid = fetches;
        core.instr_rdata = !fetches || fetched - MEMORY >= BYTES ? 0 : word(fetched); /* one fetched ahead may be anywhere */
        core.data_rvalid = accesses;
        core.data_rdata = !accesses ? 0 : accessed - HOST < 16 ? result : word(accessed);
    }
    fclose(counts);
    for (FILE *file : files) {
        fclose(file);
    }
    return status;
}
