/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled classifier from plain C, with the runtime library alone: run_compiled MODEL.stax */
#include <stax/c_api.h>

#include <stdio.h>
#include <stdlib.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n  where: %s\n  how to fix it: %s\n", what, stax_last_error_what(), stax_last_error_where(),
          stax_last_error_how());
  return 1;
}

int main(int argc, char** argv) {
  stax_model* model = NULL;
  int64_t height;
  if (argc != 2) return fprintf(stderr, "usage: run_compiled MODEL.stax\n"), 2;
  if (stax_load(argv[1], NULL, &model) != STAX_OK) return failed("load");

  for (height = 16; height <= 48; height += 16) {
    int64_t shape[4] = {1, 3, 0, 24}, k, count;
    stax_dl_tensor pixels;
    const stax_dl_tensor* inputs[1];
    const stax_dl_tensor* scores;
    stax_result* result = NULL;
    float* data;

    shape[2] = height;
    count = shape[1] * shape[2] * shape[3];
    data = malloc((size_t)count * sizeof *data);
    if (!data) return 1;
    for (k = 0; k < count; ++k) data[k] = (float)(k * 7 % 255) / 255.0f;
    pixels = stax_cpu_tensor(data, STAX_DL_FLOAT, 32, 4, shape);
    inputs[0] = &pixels;
    if (stax_run(model, inputs, 1, &result) != STAX_OK) return failed("run");
    scores = stax_result_tensor(result, 0);
    printf("%d x 24:", (int)height);
    for (k = 0; k < scores->shape[1]; ++k) printf(" %.5f", ((const float*)scores->data)[k]);
    printf("\n");
    stax_result_free(result);
    free(data);
  }
  stax_model_free(model);
  return 0;
}
