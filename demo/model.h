/* The demo's trained model, inside the program: an installed qbench needs no data folder.
 * docs/demo-model.md says how it was trained. */
#ifndef QB_DEMO_MODEL_H
#define QB_DEMO_MODEL_H

#include <stddef.h>

/* demo/model.onnx and its JSON sidecar demo/model.json, byte for byte (no terminating zero). */
extern const unsigned char qb_demo_model_onnx[];
extern const size_t qb_demo_model_onnx_size;
extern const unsigned char qb_demo_model_json[];
extern const size_t qb_demo_model_json_size;
#endif
