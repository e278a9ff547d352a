/* Files of the source tree as constant bytes of the program: QB_EMBED(symbol, "path/from/the/root")
 * defines `symbol` and `symbol_size` (size_t), to be declared extern where they are used.
 *
 * The assembler copies the files: no generated C, and no limit on the length of a string. It looks
 * for them along the include path, where the source root is; CMake must be told of the dependency
 * (OBJECT_DEPENDS). */
#ifndef QB_BASE_EMBED_H
#define QB_BASE_EMBED_H

#include <stddef.h> /* size_t, for the declarations */

#if __SIZEOF_SIZE_T__ == 8
#define QB_EMBED_SIZE_WORD ".quad"
#else
#define QB_EMBED_SIZE_WORD ".long"
#endif

#define QB_EMBED(symbol, file)                                                                     \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #symbol "\n"                                                                \
            ".global " #symbol "_size\n"                                                           \
            ".type " #symbol ", %object\n"                                                         \
            ".type " #symbol "_size, %object\n"                                                    \
            ".balign 16\n" #symbol ":\n"                                                           \
            ".incbin \"" file "\"\n"                                                               \
            ".L" #symbol "_end:\n"                                                                 \
            ".size " #symbol ", . - " #symbol "\n"                                                 \
            ".balign 8\n" #symbol "_size:\n" QB_EMBED_SIZE_WORD " .L" #symbol "_end - " #symbol    \
            "\n"                                                                                   \
            ".popsection\n")

#endif
