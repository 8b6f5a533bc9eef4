/* Starts a RISC-V core in machine mode and reports traps. */
#include "machine.h"

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, ADP_STOPPED_APPLICATION_EXIT = 0x20026, FAULT_STATUS = 99 };

extern uint32_t _data_load[], _data_begin[], _data_end[], _bss_begin[], _bss_end[];

uint8_t _thread[64]; /* what the C library keeps for each thread: errno */

int main(void);
void _reset(void);
void _begin(void);
void _trap(void);
void _report_trap(uint32_t cause, uint32_t pc);

__attribute__((naked, section(".vectors"), used)) void _reset(void)
{
    __asm__ volatile("la sp, _stack_end\n"
                     "la t0, _trap\n"
                     "csrw mtvec, t0\n"
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

/* The three instructions that mean a semihosting call; they are not compressed and lie on one page. */
__attribute__((naked, noinline)) intptr_t _semihost(intptr_t operation, const void *argument)
{
    (void)operation;
    (void)argument;
    __asm__ volatile(".balign 16\n"
                     ".option push\n"
                     ".option norvc\n"
                     "slli zero, zero, 0x1f\n"
                     "ebreak\n"
                     "srai zero, zero, 7\n"
                     ".option pop\n"
                     "ret\n");
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

/* The stack may be what failed: the report has one of its own, at the other end. */
__attribute__((naked, aligned(4))) void _trap(void)
{
    __asm__ volatile("csrr a0, mcause\n csrr a1, mepc\n la sp, _stack_end\n j _report_trap");
}

void _report_trap(uint32_t cause, uint32_t pc)
{
    char text[] = "fault 00 at 00000000\n";

    text[6] = (char)('0' + cause / 10 % 10);
    text[7] = (char)('0' + cause % 10);
    for (int i = 0; i < 8; i++) {
        text[12 + i] = "0123456789abcdef"[pc >> (28 - 4 * i) & 15];
    }
    _say(text);
    _leave(FAULT_STATUS);
}
