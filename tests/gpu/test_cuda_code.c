/* For which GPUs there is code: CUDA's rules, the message where there is none, what the binary
 * holds, and which tactics are there on devices that the linker puts in place of the real one.
 * Needs no device, but for the last test. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "conv_case.h"
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/conv/conv.h"
#include "qb_test.h"

static qb_cuda_device pretended; /* major 0: the real one */

int32_t __real_qb_cuda_count(void);
int32_t __wrap_qb_cuda_count(void);
qb_status __real_qb_cuda_current(qb_ctx *cx, qb_cuda_device *out);
qb_status __wrap_qb_cuda_current(qb_ctx *cx, qb_cuda_device *out);
qb_status __real_qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out);
qb_status __wrap_qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out);

int32_t __wrap_qb_cuda_count(void) { return pretended.major ? 1 : __real_qb_cuda_count(); }

qb_status __wrap_qb_cuda_current(qb_ctx *cx, qb_cuda_device *out) {
    if (!pretended.major) return __real_qb_cuda_current(cx, out);
    *out = pretended;
    return QB_OK;
}

/* Functions of the driver, which only launches call. */
qb_status __wrap_qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out) {
    if (!pretended.major) return __real_qb_cuda_tensor_maps_find(cx, out);
    *out = (qb_cuda_tensor_maps){0};
    return QB_OK;
}

/* As CUDA's tables give them: compute capability, and the shared memory a block may ask for. */
static const qb_cuda_device devices[] = {
    {.name = "A100", .major = 8, .minor = 0, .multiprocessors = 108, .shared_per_block = 166912},
    {.name = "A10", .major = 8, .minor = 6, .multiprocessors = 72, .shared_per_block = 101376},
    {.name = "L4", .major = 8, .minor = 9, .multiprocessors = 58, .shared_per_block = 101376},
    {.name = "H200", .major = 9, .minor = 0, .multiprocessors = 132, .shared_per_block = 232448},
    {.name = "B200", .major = 10, .minor = 0, .multiprocessors = 148, .shared_per_block = 232448},
    {.name = "RTX 5090", .major = 12, .multiprocessors = 170, .shared_per_block = 101376},
};
#define DEVICES (sizeof devices / sizeof *devices)

static void code_follows_the_rules_of_cuda(void **state) {
    (void)state;
    static const struct {
        const char *built;
        int32_t major, minor;
        qb_cuda_code code;
        int32_t from;
    } rows[] = {
        {"80 90a-real", 8, 0, QB_CUDA_CODE_MACHINE, 80},
        {"80 90a-real", 8, 9, QB_CUDA_CODE_MACHINE, 80}, /* of the same major version */
        {"80 90a-real", 9, 0, QB_CUDA_CODE_MACHINE, 90},
        {"80 90a-real", 10, 0, QB_CUDA_CODE_PTX, 80}, /* code for 9.0 alone is no use to it */
        {"80 90a-real", 12, 1, QB_CUDA_CODE_PTX, 80},
        {"80-virtual", 9, 0, QB_CUDA_CODE_PTX, 80},
        {"80-real", 9, 0, QB_CUDA_CODE_NONE, 0},
        {"86", 8, 0, QB_CUDA_CODE_NONE, 0},
        {"80 89", 8, 9, QB_CUDA_CODE_MACHINE, 89},
        {"80 90-virtual", 10, 3, QB_CUDA_CODE_PTX, 90},
        {"90a", 10, 0, QB_CUDA_CODE_NONE, 0},
        {"90a", 9, 0, QB_CUDA_CODE_MACHINE, 90},
        {"100f", 10, 3, QB_CUDA_CODE_MACHINE, 100},
        {"100f", 12, 0, QB_CUDA_CODE_NONE, 0},
        {"80 90a-real", 7, 5, QB_CUDA_CODE_NONE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t from;
        print_message("%s on %d.%d\n", rows[i].built, rows[i].major, rows[i].minor);
        assert_int_equal(qb_cuda_code_for(rows[i].built, rows[i].major, rows[i].minor, &from),
                         rows[i].code);
        assert_int_equal(from, rows[i].from);
    }
}

static void a_gpu_without_code_is_named(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < DEVICES; i++) /* what is built unless told otherwise */
        assert_ok(&cx, qb_cuda_code_check(&cx, "80 90a-real", &devices[i]));
    assert_fails(&cx, qb_cuda_code_check(&cx, "80-real 90a-real", &devices[4]),
                 QB_STATUS_UNSUPPORTED);
    assert_string_equal(cx.message,
                        "B200: no code for compute capability 10.0 in this program, which is built "
                        "for 80-real 90a-real; build with 100 in QB_CUDA_ARCHITECTURES");
    qb_ctx_clear(&cx);
    const qb_cuda_device old = {.name = "T4", .major = 7, .minor = 5};
    assert_fails(&cx, qb_cuda_code_check(&cx, "80", &old), QB_STATUS_UNSUPPORTED);
    assert_string_equal(cx.message, "T4: expected compute capability 8.0 or later, got 7.5");
    qb_ctx_clear(&cx);
}

static bool is_library(const qb_tactic *t) {
    return strstr(t->name, "cudnn") || strstr(t->name, "cublas");
}

/* The tactics that take the problem on the device; counts those on wgmma and on mma.sync apart. */
static void count_tactics(qb_ctx *cx, const conv_case *c, const qb_cuda_device *device, int *wgmma,
                          int *mma) {
    qb_problem problem;
    qb_desc in[4];
    conv_case_on_device(c, &problem, in);
    *wgmma = *mma = 0;
    pretended = *device;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        qb_kernel *kernel;
        if (strcmp((*t)->backend, "cuda") != 0 || (*t)->kind != QB_KIND_CONV || is_library(*t) ||
            !qb_tactic_takes(*t, &problem, c->constant))
            continue;
        qb_ctx_clear(cx);
        const qb_status status = (*t)->create(cx, *t, &problem, c->constant, 1, &kernel);
        if (status == QB_OK) {
            *wgmma += strstr((*t)->name, "wgmma") != NULL;
            *mma += strstr((*t)->name, ".mma") != NULL;
            qb_kernel_free(kernel);
        } else {
            if (status != QB_STATUS_UNSUPPORTED) fail_msg("%s: %s", (*t)->name, cx->message);
            /* the engine's reason for a fallback: it says what is missing */
            print_message("%s: %s\n", device->name, cx->message);
        }
    }
    pretended.major = 0;
    qb_ctx_clear(cx);
}

static void tactics_ask_what_the_device_has(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    conv_case c;
    int wgmma, mma;
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 5);
    const conv_spec spec = conv_spec_plain(2, 128, 8, 128, 3, 1);
    assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
    for (size_t i = 0; i < DEVICES; i++) {
        count_tactics(&cx, &c, &devices[i], &wgmma, &mma);
        /* five tiles and the one that shares out K among blocks; sliced K takes more memory */
        assert_int_equal(mma, devices[i].shared_per_block >= 122880 ? 7 : 6);
        const qb_cuda_need need = {.wgmma = true};
        const bool runs = qb_cuda_need_check(&cx, "wgmma", &need, &devices[i]) == QB_OK;
        assert_int_equal(runs, devices[i].major == 9 && strstr(qb_cuda_architectures(), "90a"));
        assert_int_equal(wgmma > 0, runs);
        assert_int_equal(qb_cuda_lacks_wgmma(&devices[i]), devices[i].major == 9 && !runs);
        qb_ctx_clear(&cx);
    }
    qb_cuda_device little = devices[1];
    little.shared_per_block = QB_CUDA_SHARED; /* 48 KiB: tiles of 128 x 128 and more want 64 */
    count_tactics(&cx, &c, &little, &wgmma, &mma);
    assert_int_equal(mma, 3);
    conv_case_release(&c);
}

/* ---- what the binary holds ------------------------------------------------------------------- */

/* A container of device code as nvcc writes it, and an entry of it; sizes in bytes. */
typedef struct container {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size; /* of the entries */
} container;
#define CONTAINER 0xba55ed50u
typedef struct code_entry {
    uint16_t kind, version;
    uint32_t header;
    uint64_t size;
    uint32_t more[3];
    uint32_t number; /* 80 */
} code_entry;
enum { PTX = 1, MACHINE = 2 };

/* How many files of device code were linked, and how many of them have this code for `number`. */
typedef struct holding {
    int containers, found;
} holding;

static void look_into(const char *at, const char *end, uint16_t kind, uint32_t number,
                      holding *out) {
    container c;
    code_entry e;
    while ((size_t)(end - at) >= sizeof c) {
        memcpy(&c, at, sizeof c);
        if (c.magic != CONTAINER || c.size > (size_t)(end - at)) { /* padding */
            at += 8;
            continue;
        }
        const char *next = at + c.header + c.size;
        out->containers++;
        for (at += c.header; at < next; at += e.header + e.size) {
            memcpy(&e, at, sizeof e);
            out->found += e.kind == kind && e.number == number;
        }
    }
}

static holding find_code(const char *file, size_t size, uint16_t kind, uint32_t number) {
    holding h = {0};
    Elf64_Ehdr elf;
    memcpy(&elf, file, sizeof elf);
    assert_true(elf.e_shoff + (uint64_t)elf.e_shnum * sizeof(Elf64_Shdr) <= size);
    const Elf64_Shdr *section = (const void *)(file + elf.e_shoff);
    const char *names = file + section[elf.e_shstrndx].sh_offset;
    for (int i = 0; i < elf.e_shnum; i++)
        if (strcmp(names + section[i].sh_name, ".nv_fatbin") == 0)
            look_into(file + section[i].sh_offset, file + section[i].sh_offset + section[i].sh_size,
                      kind, number, &h);
    return h;
}

/* This very program: it is linked as qbench is. */
static void the_binary_holds_what_it_says(void **state) {
    (void)state;
    qb_ctx cx;
    char *file, list[256], *rest = list, *entry;
    size_t size;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_file_read(&cx, "/proc/self/exe", (size_t)1 << 30, &file, &size));
    snprintf(list, sizeof list, "%s", qb_cuda_architectures());
    const bool hopper = strstr(list, "90a");
    while ((entry = strsep(&rest, " "))) {
        const uint32_t number = (uint32_t)strtoul(entry, NULL, 10);
        const holding machine = find_code(file, size, MACHINE, number);
        const holding ptx = find_code(file, size, PTX, number);
        print_message("%s: %d of %d files with machine code, %d with PTX\n", entry, machine.found,
                      machine.containers, ptx.found);
        assert_true(machine.containers > 0);
        /* the kernels on wgmma are for 90a alone, all others for each entry */
        const int everywhere = hopper ? 1 : machine.containers;
        if (!strstr(entry, "-virtual")) assert_true(machine.found >= everywhere);
        if (!strstr(entry, "-real")) assert_true(ptx.found >= everywhere);
        if (strstr(entry, "90a")) assert_int_equal(machine.found, machine.containers);
        if (strstr(entry, "-virtual")) assert_int_equal(machine.found, 0);
        if (strstr(entry, "-real")) assert_int_equal(ptx.found, 0);
    }
    qb_free(file);
}

/* CUDA takes the code that the rules say. */
static void the_device_takes_that_code(void **state) {
    (void)state;
    qb_ctx cx;
    qb_cuda_device device;
    int32_t machine = 0, source = 0, from;
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) qb_test_skip("%s", cx.message);
    assert_int_equal(qb_cuda_code_probe(&machine, &source), 0);
    const qb_cuda_code code =
        qb_cuda_code_for(qb_cuda_architectures(), device.major, device.minor, &from);
    print_message("%s, built for %s: runs code of %d, compiled from that for %d\n", device.name,
                  qb_cuda_architectures(), machine, source);
    assert_int_equal(source, from);
    if (code == QB_CUDA_CODE_PTX) assert_int_equal(machine, device.major * 10 + device.minor);
    if (code == QB_CUDA_CODE_MACHINE) assert_int_equal(machine, from);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(code_follows_the_rules_of_cuda),
    cmocka_unit_test(a_gpu_without_code_is_named),
    cmocka_unit_test(tactics_ask_what_the_device_has),
    cmocka_unit_test(the_binary_holds_what_it_says),
    cmocka_unit_test(the_device_takes_that_code),
};
QB_TEST_MAIN(tests)
