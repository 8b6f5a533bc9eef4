/*
 * Starts a core whose RTL is simulated (simulate.cpp): templates/emulate/riscv.c with a simulator that does the work of
 * semihosting. The calls around what is measured report retired instructions; the simulator writes them down with the cycle.
 */
#include "machine.h"

#define HOST ((volatile uint32_t *)0x10000000) /* operation and result, argument, retired instructions */

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, ADP_STOPPED_APPLICATION_EXIT = 0x20026, FAULT_STATUS = 99 };

extern uint32_t _data_load[], _data_begin[], _data_end[], _bss_begin[], _bss_end[];

uint8_t _thread[64]; /* what the C library keeps for each thread: errno */

int main(void);
void _reset(void);
void _begin(void);
void _measure_begin(void);
void _measure_end(void);
void _trap(void);
void _report_trap(void);

/* Ibex starts 0x80 behind the vectors. All counters run from now on. */
__attribute__((naked, section(".vectors"), used)) void _reset(void)
{
    __asm__ volatile(".zero 0x80\n"
                     "la sp, _stack_end\n"
                     "la t0, _trap\n"
                     "csrw mtvec, t0\n"
                     "csrw 0x320, zero\n" /* mcountinhibit */
                     "la tp, _thread\n"
                     "j _begin\n");
}

void _begin(void)
{
    const uint32_t *from = _data_load;

    for (uint32_t *to = _data_begin; to < _data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *to = _bss_begin; to < _bss_end;) {
        *to++ = 0;
    }
    _leave(main());
}

intptr_t _semihost(intptr_t operation, const void *argument)
{
    __asm__ volatile("" ::: "memory"); /* the simulator reads and writes what the argument points to */
    HOST[1] = (uint32_t)argument;
    HOST[0] = (uint32_t)operation;
    __asm__ volatile("" ::: "memory");
    return (intptr_t)HOST[0];
}

__attribute__((naked, noinline)) uint8_t *_stack_pointer(void)
{
    __asm__ volatile("mv a0, sp\n ret");
}

void _say(const char *text)
{
    _semihost(SYS_WRITE0, text);
}

void _leave(intptr_t status)
{
    const intptr_t block[2] = { ADP_STOPPED_APPLICATION_EXIT, status };

    for (;;) {
        _semihost(SYS_EXIT_EXTENDED, block);
    }
}

__attribute__((naked)) void _measure_begin(void)
{
    __asm__ volatile("li t0, 0x10000008\n csrr t1, minstret\n sw t1, 0(t0)\n ret");
}

__attribute__((naked)) void _measure_end(void)
{
    __asm__ volatile("li t0, 0x10000008\n csrr t1, minstret\n sw t1, 0(t0)\n ret");
}

__attribute__((naked, aligned(256))) void _trap(void)
{
    __asm__ volatile("la sp, _stack_end\n j _report_trap");
}

void _report_trap(void)
{
    _say("fault\n");
    _leave(FAULT_STATUS);
}
