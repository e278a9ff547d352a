#include "model.h"

/* The assembler copies the files: no generated C, and no limit on the length of a string. It looks
 * for them along the include path, where the source root is. */
#if __SIZEOF_SIZE_T__ == 8
#define SIZE_WORD ".quad"
#else
#define SIZE_WORD ".long"
#endif

#define EMBED(symbol, file)                                                                        \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #symbol "\n"                                                                \
            ".global " #symbol "_size\n"                                                           \
            ".type " #symbol ", %object\n"                                                         \
            ".type " #symbol "_size, %object\n"                                                    \
            ".balign 16\n" #symbol ":\n"                                                           \
            ".incbin \"" file "\"\n"                                                               \
            ".L" #symbol "_end:\n"                                                                 \
            ".size " #symbol ", . - " #symbol "\n"                                                 \
            ".balign 8\n" #symbol "_size:\n" SIZE_WORD " .L" #symbol "_end - " #symbol "\n"        \
            ".popsection\n")

EMBED(qb_demo_model_onnx, "demo/model.onnx");
EMBED(qb_demo_model_json, "demo/model.json");
