#include "model.h"

#include "base/embed.h"

QB_EMBED(qb_demo_model_onnx, "demo/model.onnx");
QB_EMBED(qb_demo_model_json, "demo/model.json");
