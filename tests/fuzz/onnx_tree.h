/* Changes ONNX files as trees of fields instead of as bytes, so that what comes out is nearly
 * always a well-formed file whose content is odd: names, types, shapes, attributes and whole nodes
 * are removed, doubled, moved, replaced by others of their kind or by extreme values. */
#ifndef QB_TEST_ONNX_TREE_H
#define QB_TEST_ONNX_TREE_H

#include <stddef.h>
#include <stdint.h>

/* Changes data[size] in place; it may grow up to max_size. The same seed makes the same change.
 * Returns the new size; 0 when the bytes are no file of the format or the result has no room. */
size_t qb_onnx_tree_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed);
/* The first file with parts of the second; what is returned is as above. */
size_t qb_onnx_tree_cross(const uint8_t *first, size_t first_size, const uint8_t *second,
                          size_t second_size, uint8_t *out, size_t max_size, unsigned seed);

#endif
